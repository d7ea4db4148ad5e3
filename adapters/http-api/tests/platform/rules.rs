//! What the types of commands leave no way to say is refused where the request is read. `migrations/README.md` names these rules.

use serde_json::{Value, json};

use crate::home::Home;

const README: &str = include_str!("../../../../migrations/README.md");

/// The rows of the table under a heading, as cells without their quotes.
fn table(heading: &str) -> Vec<Vec<&'static str>> {
    let (_, section) = README.split_once(&format!("\n## {heading}\n")).unwrap();
    let lines = section.split("\n## ").next().unwrap().lines().filter(|line| line.starts_with("| `"));
    lines.map(|line| line.trim_matches('|').split(" | ").map(|cell| cell.trim().trim_matches('`')).collect()).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn every_constraint_that_no_command_can_break_is_refused_as_input() {
    let Some(home) = Home::start().await else { return };
    let thread = home.driven().await;
    let run = home.start_run(&home.bot, &thread).await;
    let members = format!("/api/houses/{}/members", home.house);
    let sandbox = json!({ "house_id": home.house, "provider": "p", "environment_id": home.environment, "status": "sleeping" });
    let finish = format!("/api/threads/{thread}/runs/{run}/finish");
    let cases = [
        ("agents_kind_check", "POST", "/api/agents".to_owned(), json!({ "kind": "robot", "runtime": "pi" })),
        ("members_role_check", "POST", members.clone(), json!({ "agent_id": home.bob.id.to_string(), "role": "guest" })),
        ("members_role_check", "PATCH", format!("{members}/{}", home.bot.id), json!({ "role": "guest" })),
        ("sandboxes_status_check", "POST", "/api/sandboxes".to_owned(), sandbox),
        (
            "threads_stream_id_key",
            "POST",
            "/api/threads".to_owned(),
            json!({ "house_id": home.house, "stream_id": "arbe-agents" }),
        ),
        ("threads_status_fits_driver", "POST", "/api/threads".to_owned(), json!({ "house_id": home.house, "status": "idle" })),
        ("threads_status_fits_driver", "POST", finish.clone(), json!({ "status": "stuck" })),
        ("threads_status_fits_driver", "POST", finish.clone(), json!({ "status": "blocked" })),
        ("threads_status_fits_driver", "POST", finish, json!({ "status": "open" })),
        ("threads_status_fits_driver", "PATCH", format!("/api/threads/{}", home.chat), json!({ "status": "running" })),
    ];
    for (rule, method, path, body) in &cases {
        assert_eq!(home.refused(&home.ada, method, path, body.clone()).await, "bad_request", "{rule} {body}");
    }
    let named = table("Constraints").into_iter().filter(|line| line[2] == "bad_request").map(|line| line[0]);
    for rule in named {
        assert!(cases.iter().any(|(tried, ..)| *tried == rule), "{rule} has no case");
    }
    home.end().await;
}

/// Requests that make a row, good as they are.
fn makers(home: &Home) -> Vec<(&'static str, String, Value)> {
    let recipe = json!({ "house_id": home.house, "name": "e", "config": {} });
    let machine = json!({ "house_id": home.house, "provider": "p", "environment_id": home.environment });
    let member = json!({ "agent_id": home.bob.id.to_string(), "role": "member" });
    vec![
        ("houses", "/api/houses".into(), json!({ "name": "h" })),
        ("agents", "/api/agents".into(), json!({ "kind": "human" })),
        ("members", format!("/api/houses/{}/members", home.house), member),
        ("environments", "/api/environments".into(), recipe),
        ("sandboxes", "/api/sandboxes".into(), machine),
        ("threads", "/api/threads".into(), json!({ "house_id": home.house, "tags": [] })),
        ("agent_keys", format!("/api/agents/{}/keys", home.bot.id), json!({})),
    ]
}

#[tokio::test(flavor = "multi_thread")]
async fn a_column_that_is_never_null_is_given_or_made_and_never_the_other_way_round() {
    let Some(home) = Home::start().await else { return };
    let makers = makers(&home);
    for line in table("Columns that are never null") {
        let (table, columns) = (line[0], |cell: &'static str| cell.split(", ").filter(|column| *column != "none"));
        let Some((_, path, body)) = makers.iter().find(|(made, ..)| *made == table) else {
            assert!(["secrets", "reconciliation"].contains(&table), "{table}");
            continue;
        };
        for column in columns(line[1]) {
            let mut null = body.clone();
            null[column] = json!(null);
            let code = if (table, column) == ("sandboxes", "environment_id") { "no_environment" } else { "bad_request" };
            assert_eq!(home.refused(&home.ada, "POST", path, null).await, code, "{table}.{column} null");
            let mut without = body.clone();
            let given = without.as_object_mut().unwrap().remove(column).is_some();
            if !given {
                let start = path.rsplit_once('/').unwrap().0.rsplit_once('/').unwrap().0;
                let nobody = format!("{start}/%20/{}", path.rsplit_once('/').unwrap().1);
                assert_eq!(home.refused(&home.ada, "POST", &nobody, body.clone()).await, "bad_request", "{table}.{column}");
            } else if column != "tags" {
                assert_eq!(home.refused(&home.ada, "POST", path, without).await, code, "{table}.{column} missing");
            }
        }
        for column in columns(line[2]) {
            // Over the wire an id is named after what it is of; an agent's is a UUID.
            let one = table.trim_start_matches("agent_").replace("boxes", "box");
            let one = one.trim_end_matches('s');
            let named = if column == "id" { format!("{one}_id") } else { column.to_owned() };
            for value in ["mine", "5eed0000-0000-4000-8000-000000000001"] {
                let mut chosen = body.clone();
                chosen[&named] = json!(value);
                assert_eq!(home.refused(&home.ada, "POST", path, chosen).await, "bad_request", "{table}.{named} chosen");
            }
        }
        home.post(&home.ada, path, body.clone()).await;
    }
    for column in ["house_id", "name", "vault_secret_id"] {
        let mut secret = json!({ "house_id": "h", "name": "TOKEN", "vault_secret_id": home.bob.id.to_string() });
        assert!(serde_json::from_value::<commands::command::SetSecret>(secret.clone()).is_ok());
        secret.as_object_mut().unwrap().remove(column);
        assert!(serde_json::from_value::<commands::command::SetSecret>(secret).is_err(), "{column}");
    }
    home.end().await;
}
