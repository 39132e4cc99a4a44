/* The emulated driver's own symbol, of which the caller has one of the same name. */
void *symbol_of_emulated_driver(const char *name);
