//! The rows on a real Postgres, started by the tests themselves.

#[path = "rows/catalogue.rs"]
mod catalogue;
#[path = "rows/cluster.rs"]
mod cluster;
#[path = "rows/house.rs"]
mod house;
#[path = "rows/live.rs"]
mod live;
#[path = "rows/postgres.rs"]
mod postgres;
#[path = "rows/projected.rs"]
mod projected;
#[path = "rows/rules.rs"]
mod rules;
#[path = "rows/running.rs"]
mod running;
#[path = "rows/story.rs"]
mod story;
#[path = "rows/tenancy.rs"]
mod tenancy;
