// Blocks by name: the naming of real model families.
#include <doctest.h>
#include <fmt/format.h>

#include <string>
#include <vector>

#include "io/blocks.h"

using namespace sluice;

namespace {

Blocks blocks_of(const std::vector<std::string> &names) {
  std::vector<NamedSize> tensors;
  for (const std::string &name : names) tensors.push_back({name, 10});
  return find_blocks(tensors);
}

std::vector<std::string> prefixes(const Blocks &found) {
  std::vector<std::string> out;
  for (const Block &block : found.blocks) out.push_back(block.prefix);
  return out;
}

// Names with each of `parts` behind each of the numbers 0 .. count - 1.
void add(std::vector<std::string> &names, const std::string &list, int count,
         const std::vector<std::string> &parts) {
  for (int i = 0; i < count; ++i) {
    for (const std::string &part : parts) names.push_back(fmt::format("{}{}.{}", list, i, part));
  }
}

using Texts = std::vector<std::string>;

}  // namespace

TEST_CASE("a language model") {
  Texts names = {"model.embed_tokens.weight", "model.norm.weight", "lm_head.weight"};
  add(names, "model.layers.", 12, {"self_attn.q_proj.weight", "mlp.up_proj.weight"});
  const Blocks found = blocks_of(names);
  REQUIRE(found.blocks.size() == 12);
  CHECK(found.blocks[2].prefix == "model.layers.2.");
  CHECK(found.blocks[10].prefix == "model.layers.10.");
  CHECK(found.blocks[10].number == 10);
  CHECK(found.blocks[10].tensor_count == 2);
  CHECK(found.blocks[10].size_bytes == 20);
  CHECK(found.block_of[0] == kNoBlock);
  CHECK(found.block_of[3 + 2 * 11] == 11);
}

TEST_CASE("llama.cpp's names") {
  Texts names = {"token_embd.weight", "output_norm.weight", "output.weight"};
  add(names, "blk.", 11, {"attn_q.weight", "ffn_gate_exps.weight"});
  const Blocks found = blocks_of(names);
  REQUIRE(found.blocks.size() == 11);
  CHECK(found.blocks[10].prefix == "blk.10.");
  CHECK(found.blocks[10].number == 10);
  CHECK(found.blocks[10].tensor_count == 2);
  CHECK(found.block_of[2] == kNoBlock);
}

TEST_CASE("experts inside a layer belong to the layer") {
  Texts names;
  for (int i = 0; i < 3; ++i) {
    add(names, fmt::format("model.layers.{}.mlp.experts.", i), 8, {"w1.weight", "w2.weight"});
  }
  CHECK(prefixes(blocks_of(names)) ==
        Texts{"model.layers.0.", "model.layers.1.", "model.layers.2."});
}

TEST_CASE("Flux: two lists, and MLPs that are none") {
  Texts names = {"img_in.weight", "final_layer.adaLN_modulation.1.weight",
                 "final_layer.adaLN_modulation.1.bias"};
  add(names, "single_blocks.", 2, {"linear1.weight", "modulation.lin.weight"});
  add(names, "double_blocks.", 2,
      {"img_mod.lin.weight", "img_mlp.0.weight", "img_mlp.0.bias", "img_mlp.2.weight"});
  CHECK(prefixes(blocks_of(names)) ==
        Texts{"double_blocks.0.", "double_blocks.1.", "single_blocks.0.", "single_blocks.1."});
}

TEST_CASE("Wan: nn.Sequential with and without neighbours is no list") {
  Texts names;
  add(names, "blocks.", 3, {"self_attn.q.weight", "ffn.0.weight", "ffn.2.weight"});
  for (const int i : {0, 2}) {
    for (const char *part : {"weight", "bias"}) {
      names.push_back(fmt::format("text_embedding.{}.{}", i, part));
    }
  }
  for (const int i : {0, 1, 3, 4}) {
    for (const char *part : {"weight", "bias"}) {
      names.push_back(fmt::format("img_emb.proj.{}.{}", i, part));
    }
  }
  names.push_back("time_projection.1.weight");
  CHECK(prefixes(blocks_of(names)) == Texts{"blocks.0.", "blocks.1.", "blocks.2."});
}

TEST_CASE("a layer that was pruned away") {
  Texts names;
  for (const int i : {0, 1, 3}) {
    for (const char *part : {"q.weight", "k.weight", "v.weight"}) {
      names.push_back(fmt::format("layers.{}.{}", i, part));
    }
  }
  CHECK(prefixes(blocks_of(names)) == Texts{"layers.0.", "layers.1.", "layers.3."});
}

TEST_CASE("a UNet") {
  const std::string unet = "model.diffusion_model.";
  Texts names = {unet + "time_embed.0.weight", unet + "time_embed.0.bias",
                 unet + "time_embed.2.weight", unet + "time_embed.2.bias",
                 unet + "label_emb.0.0.weight", unet + "label_emb.0.2.weight",
                 unet + "input_blocks.0.0.weight", unet + "input_blocks.0.0.bias"};
  for (const int i : {1, 2}) {
    const std::string block = fmt::format("{}input_blocks.{}.", unet, i);
    for (const char *part : {"0.in_layers.0.weight", "0.in_layers.2.weight", "1.norm.weight",
                             "1.transformer_blocks.0.attn1.to_q.weight"}) {
      names.push_back(block + part);
    }
  }
  for (const char *part : {"0.in_layers.0.weight", "0.in_layers.2.weight", "1.norm.weight",
                           "1.proj.weight", "2.in_layers.0.weight", "2.in_layers.2.weight"}) {
    names.push_back(unet + "middle_block." + part);
  }
  CHECK(prefixes(blocks_of(names)) ==
        Texts{unet + "input_blocks.0.", unet + "input_blocks.1.", unet + "input_blocks.2.",
              unet + "middle_block.0.", unet + "middle_block.1.", unet + "middle_block.2."});
}

TEST_CASE("unlike neighbours are no list: the two text encoders of SDXL") {
  Texts names;
  add(names, "conditioner.embedders.0.transformer.text_model.encoder.layers.", 2,
      {"mlp.fc1.weight", "mlp.fc2.weight"});
  add(names, "conditioner.embedders.1.model.transformer.resblocks.", 2,
      {"attn.in_proj_weight", "attn.out_proj.weight"});
  CHECK(prefixes(blocks_of(names)) ==
        Texts{"conditioner.embedders.0.transformer.text_model.encoder.layers.0.",
              "conditioner.embedders.0.transformer.text_model.encoder.layers.1.",
              "conditioner.embedders.1.model.transformer.resblocks.0.",
              "conditioner.embedders.1.model.transformer.resblocks.1."});
}

TEST_CASE("other families") {
  for (const char *list :
       {"encoder.layer.", "transformer.h.", "h.", "vae.decoder.up_blocks.", "encoder.block.",
        "model.diffusion_model.joint_blocks.", "blk.", "gpt_neox.layers.", ""}) {
    CAPTURE(list);
    Texts names = {"other.weight"};
    add(names, list, 3, {"weight", "bias", "resnets.1.conv1.weight"});
    const Blocks found = blocks_of(names);
    REQUIRE(found.blocks.size() == 3);
    CHECK(found.blocks[1].prefix == fmt::format("{}1.", list));
    CHECK(found.blocks[1].tensor_count == 3);
  }
}

TEST_CASE("what is no counting number, and no list") {
  CHECK(blocks_of({}).blocks.empty());
  for (const Texts &names : {Texts{"a.0", "a.1", "b.0", "b.1"},                   // nothing behind
                             Texts{"a.0.w", "a.1.w"},                             // one tensor each
                             Texts{"a.0.w", "a.0.b", "a.2.w", "a.2.b"},           // no neighbours
                             Texts{"a.00.w", "a.00.b", "a.01.w", "a.01.b"},       // not plain
                             Texts{"a.0.w", "a.0.b", "a.-1.w", "a.-1.b"},         //
                             Texts{"a.9999999998.w", "a.9999999998.b", "a.9999999999.w",
                                   "a.9999999999.b"},                             // too long
                             Texts{".w", "..", "0", "", "0.", "1."}}) {
    CAPTURE(names.front());
    CHECK(blocks_of(names).blocks.empty());
  }
}

// Work that grows faster than the names' length would run into the test's time limit.
TEST_CASE("long names of nothing but numbers and many names are grouped in linear work") {
  std::string digits;
  for (int i = 0; i < 200'000; ++i) digits += "1.";
  Texts names;
  for (int i = 0; i < 20; ++i) names.push_back(digits + std::to_string(i));
  Texts many;
  for (int i = 0; i < 100'000; ++i) many.push_back(fmt::format("m.{}.e.{}.w", i / 100, i % 100));
  CHECK(blocks_of(names).blocks.empty());
  CHECK(blocks_of(many).blocks.size() == 1000);
}
