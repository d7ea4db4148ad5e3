//! Why a command may not be. Nothing was appended.

use events::ThreadStatus;

use crate::bounds::{TAG_MAX, TAGS_MAX};

macro_rules! rejections {
    ($($(#[$doc:meta])* $variant:ident $({ $($field:ident: $type:ty),* })? = $code:literal, $text:literal;)*) => {
        #[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
        pub enum Rejection {$(
            $(#[$doc])*
            #[error($text)]
            $variant $({ $($field: $type),* })?,
        )*}

        /// Every code a rejection can have. Clients match on them: never renamed.
        pub const CODES: &[&str] = &[$($code),*];

        impl Rejection {
            #[must_use]
            pub fn code(&self) -> &'static str {
                match self {
                    $(Self::$variant $({ $($field: _),* })? => $code,)*
                }
            }
        }
    };
}

rejections! {
    /// Also what somebody outside the house is told of everything in it.
    NotFound { what: &'static str } = "not_found", "no such {what}";
    Forbidden = "forbidden", "only an owner or the agent itself may do this";
    Invalid { field: &'static str, why: String } = "invalid", "{field}: {why}";
    TooLarge { field: &'static str, max: usize } = "too_large", "{field} is larger than {max} bytes";
    IdTaken = "id_taken", "the id is in use";
    AgentNotFound = "agent_not_found", "no such agent";
    HumanHasNoRuntime = "human_has_no_runtime", "a human has no runtime";
    BotNeedsRuntime = "bot_needs_runtime", "a bot must name its runtime";
    BotCannotOwn = "bot_cannot_own", "a bot is always a plain member";
    KeyTaken = "key_taken", "the key is in use";
    NotAMember = "not_a_member", "the agent is not a member of the house";
    AlreadyMember = "already_member", "the agent is a member already";
    LastOwner = "last_owner", "a house keeps at least one owner";
    MemberDrivesThreads = "member_drives_threads", "the agent drives threads of the house";
    NameTaken = "name_taken", "the house has a secret of this name";
    TooManyTags = "too_many_tags", "a thread has at most {TAGS_MAX} tags of {TAG_MAX} characters";
    TwoParents = "two_parents", "a thread has at most one parent";
    ParentNotFound = "parent_not_found", "no such parent thread";
    /// Only said to somebody who can see both houses.
    ParentInOtherHouse = "parent_in_other_house", "the parent thread belongs to another house";
    TooDeep = "too_deep", "work is delegated over at most 8 threads";
    DriverNotABot = "driver_not_a_bot", "only a bot drives a thread";
    EnvironmentNotFound = "environment_not_found", "the house has no such environment";
    EnvironmentInUse = "environment_in_use", "a thread, a sandbox or the house itself refers to the environment";
    NoEnvironment = "no_environment", "neither the call nor the thread nor the house names an environment";
    SandboxNotFound = "sandbox_not_found", "the house has no such sandbox";
    SandboxDead = "sandbox_dead", "the sandbox is dead; resume it first";
    SandboxNotDead = "sandbox_not_dead", "the sandbox is not dead";
    HasSandbox = "has_sandbox", "the thread has a sandbox that is not dead";
    NothingToResume = "nothing_to_resume", "no thread is on the dead sandbox";
    SandboxStatus { status: String } = "wrong_sandbox_status", "the sandbox is {status}";
    ThreadClosed = "thread_closed", "the thread is closed";
    WrongStatus { status: ThreadStatus } = "wrong_status", "the thread is {status}";
    WrongRun = "wrong_run", "another run is the thread's current one";
    NothingInProgress = "nothing_in_progress", "nothing is in progress in the thread: no run, no answer of a bot, no command";
    AuthorMismatch = "author_mismatch", "an entry is authored by who posts it";
    KindNotAllowed = "kind_not_allowed", "this author may not post entries of this type here";
    UnknownKind = "unknown_kind", "no such type of entry";
}
