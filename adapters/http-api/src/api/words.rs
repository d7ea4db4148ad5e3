//! How names and tags look, for the document. The commands are who checks them.

use std::borrow::Cow;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};

macro_rules! words {
    ($($name:ident of at most $max:expr;)*) => {$(
        pub(crate) struct $name;

        impl JsonSchema for $name {
            fn schema_name() -> Cow<'static, str> {
                stringify!($name).into()
            }

            fn json_schema(_: &mut SchemaGenerator) -> Schema {
                let pattern = "^[^\\u0000-\\u001f\\u007f-\\u009f]*$";
                json_schema!({ "type": "string", "minLength": 1, "maxLength": $max, "pattern": pattern })
            }
        }
    )*};
}

words! {
    Name of at most commands::NAME_MAX;
    Tag of at most commands::TAG_MAX;
}
