/* A library that has none of the functions it should have. */
int nothing;
