mod bounds;
mod fake;
mod http;
mod lines;
