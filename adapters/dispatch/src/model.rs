//! Where models are asked, and in which words.

use std::time::Duration;

use commands::ports::{Plain, Reach};
use events::AgentId;
use serde_json::Value;

mod anthropic;
mod openai;
mod way;
mod wire;

pub use commands::ports::{Api, BotRule, ModelConfig, Trigger};

/// Of one bot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Rule {
    pub(crate) trigger: Trigger,
    pub(crate) model: Option<String>,
    pub(crate) system: Option<String>,
}

/// Of the bots in one thread.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Rules(pub(crate) Option<ModelConfig>);

impl Rules {
    pub(crate) fn of(&self, bot: AgentId, name: Option<&str>) -> Rule {
        let Some(config) = &self.0 else { return Rule { trigger: Trigger::Mention, model: None, system: None } };
        let own = name.and_then(|name| config.bots.get(name)).or_else(|| config.bots.get(&bot.to_string()));
        let own = own.cloned().unwrap_or_default();
        Rule {
            trigger: own.trigger.unwrap_or(config.trigger),
            model: own.model.or_else(|| Some(config.model.clone())),
            system: own.system.or_else(|| config.system.clone()),
        }
    }
}

/// One question.
#[derive(Debug)]
pub(crate) struct Ask<'a> {
    pub(crate) config: &'a ModelConfig,
    pub(crate) model: &'a str,
    pub(crate) key: Option<&'a Plain>,
    pub(crate) system: &'a str,
    pub(crate) messages: &'a [Message],
    pub(crate) tools: &'a [Tool],
    pub(crate) reach: &'a Reach,
    pub(crate) timeout: Duration,
}

impl Ask<'_> {
    /// Of a model that has begun to answer.
    fn idle(&self) -> Duration {
        self.timeout / 3
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Message {
    User(String),
    Assistant { text: String, calls: Vec<Call> },
    Result { call: String, text: String, failed: bool },
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Call {
    pub(crate) id: String,
    pub(crate) name: String,
    /// JSON, if the model keeps to it.
    pub(crate) arguments: String,
}

#[derive(Clone, Debug)]
pub(crate) struct Tool {
    pub(crate) name: &'static str,
    pub(crate) description: &'static str,
    pub(crate) parameters: Value,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Answer {
    pub(crate) text: String,
    pub(crate) calls: Vec<Call>,
    pub(crate) stop: Stop,
    pub(crate) input_tokens: u64,
    pub(crate) output_tokens: u64,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Stop {
    #[default]
    End,
    Length,
    ToolUse,
}

impl Stop {
    /// As pi says it.
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::End => "stop",
            Self::Length => "length",
            Self::ToolUse => "toolUse",
        }
    }
}

/// Said on the thread, so it carries no key.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ModelError {
    #[error("the model refuses: {0}")]
    Refused(String),
    #[error("the model cannot be asked: {0}")]
    Unreachable(String),
    #[error("the model's answer broke off: {0}")]
    Broken(String),
    #[error("the model says too much: {what} is larger than {max} bytes")]
    TooLarge { what: &'static str, max: usize },
    #[error("the model fell silent in the middle of its answer, for {} s", .0.as_secs_f32())]
    Silent(Duration),
    #[error("the model took too long")]
    TimedOut,
}

impl ModelError {
    pub(crate) fn class(&self) -> &'static str {
        match self {
            Self::Refused(_) => "model_refused",
            Self::Unreachable(_) => "model_unreachable",
            Self::Broken(_) => "model_broken",
            Self::TooLarge { .. } => "model_too_large",
            Self::Silent(_) | Self::TimedOut => "model_timeout",
        }
    }
}

/// Hands out the text as it comes, and the whole when it is there.
pub(crate) async fn ask(ask: &Ask<'_>, delta: &mut (dyn FnMut(&str) + Send)) -> Result<Answer, ModelError> {
    let asked = async {
        let client = way::client(&ask.config.base_url, ask.reach).await?;
        match ask.config.api {
            Api::Openai => openai::ask(client, ask, delta).await,
            Api::Anthropic => anthropic::ask(client, ask, delta).await,
        }
    };
    tokio::time::timeout(ask.timeout, asked).await.unwrap_or(Err(ModelError::TimedOut))
}

fn key(ask: &Ask<'_>) -> String {
    ask.key.map(|key| String::from_utf8_lossy(key.expose()).trim().to_owned()).unwrap_or_default()
}

/// What a server says of itself may be long.
fn brief(text: &str) -> String {
    text.chars().take(2_000).collect()
}
