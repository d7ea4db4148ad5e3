//! The OpenAPI document, made of the types that handlers take and give.

use axum::Router;
use axum::handler::Handler;
use axum::http::{Method, StatusCode};
use axum::middleware::map_response;
use axum::response::Response;
use axum::routing::{MethodFilter, on};
use schemars::generate::SchemaSettings;
use schemars::{JsonSchema, SchemaGenerator};
use serde_json::{Map, Value, json};

use super::error::ErrorBody;
use crate::metrics::Template;

/// Something a handler takes from a request.
pub(crate) trait Input {
    fn describe(operation: &mut Operation, schemas: &mut SchemaGenerator);
}

/// What it answers with.
pub(crate) trait Output {
    fn describe(operation: &mut Operation, schemas: &mut SchemaGenerator);
}

/// A handler of which the document can be made.
pub(crate) trait Documented<I> {
    fn describe(operation: &mut Operation, schemas: &mut SchemaGenerator);
}

macro_rules! documented {
    ($(($($input:ident)*))*) => {$(
        impl<F, R, $($input,)*> Documented<($($input,)*)> for F
        where
            F: Fn($($input,)*) -> R,
            R: Future<Output: Output>,
            $($input: Input,)*
        {
            fn describe(operation: &mut Operation, schemas: &mut SchemaGenerator) {
                $($input::describe(operation, schemas);)*
                <R::Output as Output>::describe(operation, schemas);
            }
        }
    )*};
}

documented! { (A) (A B) (A B C) (A B C D) (A B C D E) }

#[derive(Default)]
pub(crate) struct Operation {
    parameters: Vec<Value>,
    body: Option<Value>,
    responses: Map<String, Value>,
}

impl Operation {
    /// One parameter per field of `T`.
    pub(crate) fn parameters<T: JsonSchema>(&mut self, place: &str, schemas: &mut SchemaGenerator) {
        let schema = T::json_schema(schemas).to_value();
        let required = schema["required"].as_array().cloned().unwrap_or_default();
        for (name, field) in schema["properties"].as_object().into_iter().flatten() {
            let needed = place == "path" || required.iter().any(|one| one.as_str() == Some(name));
            self.parameters.push(json!({ "name": name, "in": place, "required": needed, "schema": without_null(field) }));
        }
    }

    pub(crate) fn header(&mut self, name: &str, description: &str, schema: &Value) {
        self.parameters.push(json!({ "name": name, "in": "header", "description": description, "schema": schema }));
    }

    pub(crate) fn body<T: JsonSchema>(&mut self, required: bool, schemas: &mut SchemaGenerator) {
        let schema = schemas.subschema_for::<T>();
        self.body = Some(json!({ "required": required, "content": { "application/json": { "schema": schema } } }));
    }

    pub(crate) fn response(&mut self, status: StatusCode, response: Value) {
        self.responses.insert(status.as_u16().to_string(), response);
    }

    pub(crate) fn errors(&mut self, statuses: &[u16], schemas: &mut SchemaGenerator) {
        self.errors_as::<ErrorBody>(statuses, &json!({}), schemas);
    }

    /// In another shape, and with these headers.
    pub(crate) fn errors_as<T: JsonSchema>(&mut self, statuses: &[u16], headers: &Value, schemas: &mut SchemaGenerator) {
        let schema = schemas.subschema_for::<T>();
        for status in statuses {
            let reason = StatusCode::from_u16(*status).ok().and_then(|status| status.canonical_reason()).unwrap_or_default();
            let mut response = json!({ "description": reason, "content": { "application/json": { "schema": schema } } });
            if headers.as_object().is_some_and(|headers| !headers.is_empty()) {
                response["headers"] = headers.clone();
            }
            self.responses.insert(status.to_string(), response);
        }
    }

    fn into_json(mut self, summary: &str, id: &str, public: bool) -> Value {
        self.parameters.sort_by_key(|parameter| parameter["in"].as_str() != Some("path"));
        let mut operation = json!({
            "summary": summary,
            "operationId": id,
            "parameters": self.parameters,
            "responses": self.responses,
            "security": if public { json!([]) } else { json!([{ "bearer": [] }]) },
        });
        if let Some(body) = self.body {
            operation["requestBody"] = body;
        }
        operation
    }
}

/// A parameter is there or not; it is never null.
fn without_null(schema: &Value) -> Value {
    let mut schema = schema.clone();
    if let Some(fields) = schema.as_object_mut() {
        fields.retain(|name, value| name != "default" || !value.is_null());
    }
    if let Some(kinds) = schema["type"].as_array() {
        let kinds: Vec<_> = kinds.iter().filter(|kind| *kind != "null").cloned().collect();
        schema["type"] = if let [only] = kinds.as_slice() { only.clone() } else { kinds.into() };
    }
    if let Some(options) = schema["anyOf"].as_array() {
        let options: Vec<_> = options.iter().filter(|option| option["type"] != "null").cloned().collect();
        if let [only] = options.as_slice() {
            return only.clone();
        }
    }
    schema
}

/// Routes and their description, made together.
pub(crate) struct Routes {
    router: Router,
    schemas: SchemaGenerator,
    paths: Map<String, Value>,
}

impl Routes {
    pub(crate) fn new() -> Self {
        let settings = SchemaSettings::draft2020_12().with(|settings| {
            settings.definitions_path = "/components/schemas".into();
            settings.meta_schema = None;
        });
        Self { router: Router::new(), schemas: settings.into_generator(), paths: Map::new() }
    }

    /// `id` names the operation for generated clients: never renamed.
    pub(crate) fn add<H, T, I>(mut self, method: &Method, path: &'static str, id: &str, summary: &str, handler: H) -> Self
    where
        H: Handler<T, ()> + Documented<I>,
        T: 'static,
    {
        self = self.describe(method, path, id, summary, H::describe);
        let filter = MethodFilter::try_from(method.clone()).expect("a method that can be routed");
        let named = map_response(move |mut response: Response| async move {
            response.extensions_mut().insert(Template(path));
            response
        });
        self.router = self.router.route(path, on(filter, handler).layer(named));
        self
    }

    /// The same for what is answered by others than this router.
    pub(crate) fn describe(
        mut self,
        method: &Method,
        path: &'static str,
        id: &str,
        summary: &str,
        describe: impl FnOnce(&mut Operation, &mut SchemaGenerator),
    ) -> Self {
        let mut operation = Operation::default();
        describe(&mut operation, &mut self.schemas);
        let item = self.paths.entry(path).or_insert_with(|| json!({}));
        item[method.as_str().to_ascii_lowercase()] = operation.into_json(summary, id, false);
        self
    }

    pub(crate) fn finish(mut self) -> (Router, Value) {
        let schemas = self.schemas.take_definitions(true);
        let document = json!({
            "openapi": "3.1.0",
            "info": {
                "title": "arbe",
                "version": env!("CARGO_PKG_VERSION"),
                "description": "Someone says something in a thread, and work happens.",
            },
            "paths": self.paths,
            "components": {
                "schemas": schemas,
                "securitySchemes": {
                    "bearer": {
                        "type": "http",
                        "scheme": "bearer",
                        "description": "An agent's API key, or a token of this server or of its configured issuer.",
                    },
                },
            },
        });
        (self.router, document)
    }
}
