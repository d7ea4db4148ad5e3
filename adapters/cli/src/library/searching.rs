//! `arbe search` and `arbe find`.

use std::process::ExitCode;

use entry_index::EntryFilter;
use queries::entries::{self, EntryHit, EntryQuery};
use queries::library::{self, Explained, PROTOCOL_VERSION, SearchRequest, SearchResponse};

use super::{Library, reading, stages};
use crate::args::{Find, Search};
use crate::config::Config;
use crate::output::{self, Usage};
use crate::seeker::{self, Model, Seeker};
use crate::{datasets, exit};

/// Opens what is searched, and brings it up to the log.
pub(super) async fn seeker(library: &Library, config: &Config) -> anyhow::Result<(Seeker, Option<anyhow::Error>)> {
    seeker_with(library, config, seeker::model(config).await?).await
}

async fn seeker_with(
    library: &Library,
    config: &Config,
    model: Option<Model>,
) -> anyhow::Result<(Seeker, Option<anyhow::Error>)> {
    let index = seeker::open(config, &library.log)?;
    let datasets = datasets::open_with(config, &library.log, model.as_ref())?;
    let mut late = stages::follow_index(&library.log, &index).await.err();
    if model.is_some() {
        late = stages::follow(&library.log, &datasets).await.err().or(late);
    }
    Ok((Seeker::new(config, &library.log, index, datasets, model), late))
}

pub(super) async fn search(args: Search, config: &Config, json: bool) -> anyhow::Result<ExitCode> {
    let usage = |error: events::InvalidId| Usage(error.to_string());
    let moment = |moment: Option<crate::args::Moment>| {
        let moment = moment.map(|it| events::session::Timestamp::from_millis(it.0)).transpose();
        moment.map_err(|error| Usage(error.to_string()))
    };
    let request = SearchRequest {
        protocol_version: PROTOCOL_VERSION,
        namespace: None,
        query: args.query.join(" "),
        project: args.project,
        session_id: args.session.as_deref().map(str::parse).transpose().map_err(usage)?,
        source_agent: args.client,
        role: args.role.map(Into::into),
        since: moment(args.since)?,
        until: moment(args.until)?,
        min_score: args.min_score,
        limit: Some(args.limit),
        min_position: None,
    };
    let (library, embedder) = tokio::try_join!(Library::open(config, args.house.as_deref()), seeker::embedder(config))?;
    let (seeker, late) = seeker_with(&library, config, seeker::kept(embedder, config)?).await?;
    let refused = |error| reading::refused(error, late.as_ref());
    // What is not indexed yet may be of anybody.
    if let (Some(client), None) = (&request.source_agent, &late)
        && let Err(unknown) = known(&seeker, &library, client).await
    {
        library.close().await;
        return Err(unknown);
    }
    let code = if args.explain {
        let explained = library::explain(&seeker, &library.house, request).await;
        library.close().await;
        let explained = explained.map_err(refused)?;
        if json {
            output::print_json(&explained)?
        } else {
            output::print(plan(&explained))?
        }
        ExitCode::SUCCESS
    } else {
        let found = library::search(&seeker, &library.house, request).await;
        library.close().await;
        let found = found.map_err(refused)?;
        let nothing = found.sessions.is_empty();
        if json {
            output::print_json(&found)?
        } else {
            output::print(told(&found))?
        }
        if nothing { ExitCode::from(exit::NOT_FOUND) } else { ExitCode::SUCCESS }
    };
    if let Some(why) = &late {
        output::note(format_args!("the index is behind the log, so there may be more: {why:#}"));
    }
    Ok(code)
}

async fn known(seeker: &Seeker, library: &Library, client: &str) -> anyhow::Result<()> {
    let recorded = seeker.clients(&library.house).await.map_err(|error| reading::refused(error, None))?;
    let recorded = recorded.iter().map(String::as_str).chain([codecs::thread::ORIGIN]).collect();
    Ok(super::known(client, &recorded)?)
}

/// For people: what was said where, the best first.
fn told(found: &SearchResponse) -> String {
    let mut text = String::new();
    for session in &found.sessions {
        let newer = match session.newer_messages {
            0 => String::new(),
            1 => ", 1 newer message".to_owned(),
            many => format!(", {many} newer messages"),
        };
        text.push_str(&format!(
            "{:.2}  {}  {}  {}{newer}\n",
            session.score,
            session.session_id,
            session.source_agent,
            output::clean(&session.project)
        ));
        for hit in &session.matches {
            // One that it spawned said it, and `arbe get` finds it there.
            let elsewhere = hit.session_id.as_ref().map(|session| format!("  in {session}")).unwrap_or_default();
            text.push_str(&format!("      {}  {}  {}{elsewhere}\n", hit.timestamp, hit.role.as_str(), hit.message_id));
            for line in hit.snippet.as_ref().unwrap_or(&hit.text).lines().filter(|line| !line.trim().is_empty()).take(6) {
                text.push_str(&format!("          {}\n", output::clean(line)));
            }
        }
    }
    found.hints.iter().for_each(|hint| output::note(hint));
    text
}

fn plan(explained: &Explained) -> String {
    let mut text = format!("mode     {:?}\nverdict  {}\n\n{}\n", explained.mode, explained.verdict, explained.keyword_plan);
    if let Some(plan) = &explained.vector_plan {
        text.push_str(&format!("{plan}\n"));
    }
    let number = |it: Option<f64>| it.map_or_else(|| "-".to_owned(), |it| format!("{it:.3}"));
    let row = |it: &library::Attribution| {
        vec![
            it.session_id.clone(),
            number(Some(it.score)),
            number(it.keyword),
            number(it.vector),
            number(it.similarity),
            number(it.about),
            number(it.covers),
            number(Some(it.phrase)),
        ]
    };
    let rows: Vec<_> = explained.sessions.iter().map(row).collect();
    text.push_str(&output::table(&["SESSION", "SCORE", "KEYWORD", "VECTOR", "COSINE", "ABOUT", "COVERS", "AS TYPED"], &rows));
    text
}

/// `arbe find`.
pub(super) async fn find(args: Find, config: &Config, json: bool) -> anyhow::Result<ExitCode> {
    let micros = |moment: Option<crate::args::Moment>| moment.map(|it| it.0.saturating_mul(1_000));
    let filter = EntryFilter {
        thread: args.thread,
        author: args.author,
        kind: args.kind,
        tag: args.tag,
        status: args.status.map(|status| status.to_string()),
        since: micros(args.since),
        until: micros(args.until),
    };
    let query = EntryQuery { text: args.words.join(" "), filter, skip: args.offset, most: args.limit.into() };
    let library = Library::open(config, args.house.as_deref()).await?;
    let index = seeker::open(config, &library.log)?;
    let late = stages::follow_index(&library.log, &index).await.err();
    let seeker = Seeker::new(config, &library.log, index, datasets::open(config, &library.log)?, None);
    let found = entries::find(&seeker, &library.house, query).await;
    library.close().await;
    let found = found.map_err(|error| reading::refused(error, late.as_ref()))?;
    if let Some(why) = &late {
        output::note(format_args!("the index is behind the log, so there may be more: {why:#}"));
    }
    let nothing = found.entries.is_empty();
    if json {
        output::print_json(&found)?;
    } else {
        output::print(found.entries.iter().map(line).collect::<String>())?;
        found.hints.iter().for_each(|hint| output::note(hint));
        if let Some(next) = found.next_offset {
            output::note(format_args!("{} of {}; go on with --offset {next}", next, found.total));
        }
    }
    Ok(if nothing { ExitCode::from(exit::NOT_FOUND) } else { ExitCode::SUCCESS })
}

fn line(hit: &EntryHit) -> String {
    let said = hit.snippet.split_whitespace().collect::<Vec<_>>().join(" ");
    format!("{}/{}  {}  {}\n", hit.thread_id, hit.seq, hit.kind, output::clean(&said))
}

#[cfg(test)]
mod tests {
    use events::session::{MessageId, Role, SessionId, Timestamp};
    use queries::library::{Hit, Mode, SessionHit};

    use super::*;

    #[test]
    fn a_match_in_a_session_that_another_spawned_is_told_with_its_session() {
        let moment = Timestamp::from_millis(0).unwrap();
        let hit = |message: &str, session: Option<&str>| Hit {
            message_id: MessageId::new(message).unwrap(),
            session_id: session.map(|id| SessionId::new(id).unwrap()),
            role: Role::User,
            timestamp: moment,
            score: 1.0,
            text: "kestrels hover".into(),
            text_bytes: None,
            snippet: None,
            parts_summary: None,
        };
        let session = SessionHit {
            session_id: SessionId::new("root").unwrap(),
            source_agent: "pi".into(),
            project: "/p".into(),
            created_at: moment,
            score: 1.0,
            matches: vec![hit("m1", None), hit("m2", Some("child"))],
            newer_messages: 0,
            last_message_at: moment,
        };
        let text = told(&SearchResponse { sessions: vec![session], mode: Mode::Keyword, hints: Vec::new() });
        let lines: Vec<&str> = text.lines().filter(|line| line.contains("  user  ")).collect();
        assert_eq!(lines.len(), 2);
        assert!(lines[0].ends_with("  user  m1") && lines[1].ends_with("  user  m2  in child"), "{text}");
    }
}
