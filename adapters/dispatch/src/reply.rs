//! A bot answers in this process: a model is asked, its words and its tools go into the thread as they come.

use std::time::Duration;

use commands::command::AppendEntry;
use commands::{Actor, CommandError};
use events::dispatch::{Failed, Heartbeat};
use events::{AgentId, Entry, Json, RunId, ThreadId};
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::desk::{Said, Turn};
use crate::dispatcher::{Inner, Later};
use crate::model::{self, Answer, Api, Ask, Call, ModelConfig, Rule, Rules, Stop};
use crate::surroundings::{Halt, Surroundings, Trouble};
use crate::tools;

mod history;
mod leave;

const FLUSH: Duration = Duration::from_millis(150);

/// One answer on its way.
pub(crate) struct Answering {
    pub(crate) thread: ThreadId,
    pub(crate) id: RunId,
    pub(crate) bot: AgentId,
    pub(crate) at: Surroundings,
    /// The place of the words that it is to.
    pub(crate) since: u64,
    config: ModelConfig,
    rule: Rule,
}

impl Inner {
    pub(crate) async fn reply(&self, thread: &ThreadId, id: &RunId) -> Result<(), Later> {
        let Some(turn) = self.desk.lock().turn(thread, id).cloned() else { return Ok(()) };
        let own = turn.server.as_ref() == Some(&self.options.server);
        if !own {
            match self.claim(thread, Some(turn.bot), id, turn.claims).await {
                Ok(true) => {}
                Ok(false) => return Ok(()),
                // The bot may not speak there any more, say.
                Err(Later::Command(CommandError::Rejected(why))) => {
                    return self.give_up_answer(thread, id, turn.bot, Trouble::new(why.code(), why)).await;
                }
                Err(later) => return Err(later),
            }
        }
        let answered = self.answer(thread, id, &turn).await;
        // Somebody ended it meanwhile, or closed the thread: that is its end, and nothing more is said.
        if answered.is_err() && self.caught_up().await.is_ok() && self.is_over(thread, id) {
            return Ok(());
        }
        match answered {
            Ok(()) => Ok(()),
            Err(Halt::Final(trouble)) => self.give_up_answer(thread, id, turn.bot, trouble).await,
            Err(Halt::Later(later)) => Err(later),
        }
    }

    pub(crate) fn is_over(&self, thread: &ThreadId, id: &RunId) -> bool {
        self.desk.lock().turn(thread, id).is_none()
    }

    /// In the name of the bot, or of nobody if it may not speak there. An end that the thread takes from nobody is not tried again.
    async fn give_up_answer(&self, thread: &ThreadId, id: &RunId, bot: AgentId, trouble: Trouble) -> Result<(), Later> {
        let Trouble { class, message } = trouble;
        let failed = Failed { run_id: Some(id.clone()), error_class: class.to_owned(), message };
        for (author, key) in [(Some(bot), "end"), (None, "end-by-system")] {
            match self.say(thread, author, failed.clone(), Some(&format!("{id}:{key}"))).await {
                Ok(_) => return Ok(()),
                Err(CommandError::Rejected(_) | CommandError::IdempotencyKeyReused) => {}
                Err(error) => return Err(error.into()),
            }
        }
        self.desk.lock().forget(thread, None, Some(id));
        Ok(())
    }

    fn go_on(&self, it: &Answering) -> Result<(), Later> {
        if self.is_over(&it.thread, &it.id) { Err(Later::of("the answer was cancelled")) } else { Ok(()) }
    }

    async fn answer(&self, thread: &ThreadId, id: &RunId, turn: &Turn) -> Result<(), Halt> {
        if turn.late {
            let minutes = self.now().saturating_sub(turn.seen) / 60_000;
            let late = format!(
                "this was said {minutes} minutes before anybody was there to answer it: say it again if it still matters"
            );
            return Err(Trouble::new("too_late", late).into());
        }
        let said = match &turn.said {
            None if turn.asked => self.words_before(thread, id, turn.bot).await?,
            said => said.clone(),
        };
        let said = said.ok_or_else(|| Trouble::new("interrupted", "the server stopped while it answered"))?;
        let at = self.surroundings(thread)?;
        let config = self.model(&at.recipe)?;
        let config = config.ok_or_else(|| Trouble::new("no_model", "neither the environment nor the server names a model"))?;
        let name = self.outside.commands.with_world(|world| world.agent(turn.bot).and_then(|agent| agent.name.clone()));
        let rule = Rules(Some(config.clone())).of(turn.bot, name.as_deref());
        let key = match &config.api_key_secret {
            Some(name) => Some(self.one_secret(&at.thread.house_id, name.clone()).await?),
            None => None,
        };
        let answering = Answering { thread: thread.clone(), id: id.clone(), bot: turn.bot, at, since: said.seq, config, rule };
        while !self.round(&answering, &said, key.as_ref()).await? {}
        Ok(())
    }

    /// Whether that was the last. What an earlier attempt has said is not said again.
    async fn round(&self, it: &Answering, said: &Said, key: Option<&commands::ports::Plain>) -> Result<bool, Halt> {
        self.go_on(it)?;
        let past = history::history(self, it, said).await?;
        if past.rounds > self.options.manners.rounds {
            return Err(Trouble::new("too_many_rounds", "the bot kept calling tools and did not come to an end").into());
        }
        if let Some((round, calls)) = past.open {
            for (index, call) in calls {
                self.use_tool(it, round, index, &call).await?;
            }
            return Ok(false);
        }
        let system = history::system(self, it);
        let tools = tools::tools();
        let ask = Ask {
            config: &it.config,
            model: it.rule.model.as_deref().unwrap_or(&it.config.model),
            key,
            system: &system,
            messages: &past.messages,
            tools: &tools,
            reach: &self.options.reach,
            timeout: self.options.patience.model,
        };
        let answer = self.listen(it, past.rounds, &ask).await?;
        let last = answer.calls.is_empty();
        self.post(it, "pi.assistant", &assistant(it, past.rounds, &answer, self.now()), &format!("{}:{}", it.id, past.rounds))
            .await?;
        Ok(last)
    }

    /// Asks, and says what comes while it comes.
    async fn listen(&self, it: &Answering, round: u32, ask: &Ask<'_>) -> Result<Answer, Halt> {
        let heard = Mutex::new(String::new());
        let mut delta = |text: &str| heard.lock().push_str(text);
        let (mut told, mut index) = (Instant::now(), 0_u64);
        let asked = model::ask(ask, &mut delta);
        tokio::pin!(asked);
        loop {
            let done = tokio::select! {
                done = &mut asked => Some(done),
                () = tokio::time::sleep(FLUSH) => None,
            };
            self.go_on(it)?;
            let text = std::mem::take(&mut *heard.lock());
            if !text.is_empty() {
                // Under both names: a message of a session says `runId`, and a piece that the mirror posts `run_id`.
                let chunk = json!({ "delta": text, "index": index, "round": round, "runId": it.id, "run_id": it.id });
                self.post(it, "pi.chunk", &chunk, "").await?;
                (told, index) = (Instant::now(), index + 1);
            } else if done.is_none() && told.elapsed() >= self.options.patience.lease / 3 {
                self.say(&it.thread, Some(it.bot), Heartbeat { run_id: it.id.clone() }, None).await?;
                told = Instant::now();
            }
            if let Some(done) = done {
                return done.map_err(|error| Trouble::new(error.class(), error).into());
            }
        }
    }

    async fn use_tool(&self, it: &Answering, round: u32, index: usize, call: &Call) -> Result<(), Halt> {
        let place = format!("{}.{round}.{index}", it.id);
        let (text, failed) = match tools::perform(self, it, &place, call).await {
            Ok(text) => (text, false),
            Err(Halt::Final(trouble)) => (trouble.to_string(), true),
            Err(later @ Halt::Later(_)) => return Err(later),
        };
        self.go_on(it)?;
        let result = json!({
            "role": "toolResult",
            "toolCallId": call.id,
            "toolName": call.name,
            "content": [{ "type": "text", "text": text }],
            "isError": failed,
            "timestamp": self.now(),
            "runId": it.id,
            "round": round,
        });
        self.post(it, "pi.tool_result", &result, &format!("{place}:result")).await
    }

    /// As the bot itself. Under a key that is taken another attempt was first, and the thread is read anew.
    async fn post(&self, it: &Answering, kind: &str, payload: &Value, key: &str) -> Result<(), Halt> {
        let payload = Json::of(payload).map_err(Later::of)?;
        let append = AppendEntry { thread_id: it.thread.clone(), author_agent_id: None, kind: kind.to_owned(), v: 1, payload };
        let key = Some(key).filter(|key| !key.is_empty());
        match self.outside.commands.execute(Actor::Agent(it.bot), append, key).await {
            Ok(_) => Ok(()),
            Err(CommandError::IdempotencyKeyReused) => Err(Later::of("another attempt was first").into()),
            Err(error) => Err(error.into()),
        }
    }
}

/// In the words of pi's sessions, so that a thread reads the same whoever answered.
fn assistant(it: &Answering, round: u32, answer: &Answer, now: u64) -> Value {
    let text = (!answer.text.is_empty()).then(|| json!({ "type": "text", "text": answer.text }));
    let call = |call: &Call| {
        let arguments: Value = serde_json::from_str(&call.arguments).unwrap_or_else(|_| json!({ "unreadable": call.arguments }));
        json!({ "type": "toolCall", "id": call.id, "name": call.name, "arguments": arguments })
    };
    let content: Vec<_> = text.into_iter().chain(answer.calls.iter().map(call)).collect();
    // Without a call there is nothing to go on with, whatever the model says.
    let stop = match (answer.calls.is_empty(), answer.stop) {
        (false, _) => Stop::ToolUse,
        (true, Stop::ToolUse) => Stop::End,
        (true, stop @ (Stop::End | Stop::Length)) => stop,
    };
    let total = answer.input_tokens + answer.output_tokens;
    json!({
        "role": "assistant",
        "content": content,
        "api": match it.config.api { Api::Openai => "openai-completions", Api::Anthropic => "anthropic-messages" },
        "provider": "arbe",
        "model": it.rule.model,
        "usage": { "input": answer.input_tokens, "output": answer.output_tokens, "totalTokens": total },
        "stopReason": stop.as_str(),
        "timestamp": now,
        "runId": it.id,
        "round": round,
    })
}

/// Of this answer, as an entry says it.
pub(crate) fn belongs(entry: &Entry, id: &RunId) -> bool {
    let payload: Option<Value> = entry.payload.decode().ok();
    payload.is_some_and(|payload| payload["runId"] == id.as_str())
}
