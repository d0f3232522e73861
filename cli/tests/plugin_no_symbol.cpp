// A shared object that is no plug-in.
extern "C" int attention(int x) { return x; }
