pub mod race;
