//! As in daytona_api_client and daytona_toolbox_api_client 0.226.1.

use crate::standin::shape::{Field, Kind, may, need};

const BUILD: &[Field] = &[need("dockerfileContent", Kind::Text), may("contextHashes", Kind::Texts)];
const VOLUME: &[Field] = &[need("volumeId", Kind::Text), need("mountPath", Kind::Text), may("subpath", Kind::Text)];

pub const CREATE: &[Field] = &[
    may("name", Kind::Text),
    may("snapshot", Kind::Text),
    may("user", Kind::Text),
    may("env", Kind::TextMap),
    may("labels", Kind::TextMap),
    may("public", Kind::Bool),
    may("networkBlockAll", Kind::Bool),
    may("kvm", Kind::Bool),
    may("networkAllowList", Kind::Text),
    may("domainAllowList", Kind::Text),
    may("outboundProxyUrl", Kind::Text),
    may("otelEndpointOverride", Kind::Text),
    may("target", Kind::Text),
    may("cpu", Kind::Int),
    may("gpu", Kind::Int),
    may("gpuType", Kind::Texts),
    may("spot", Kind::Bool),
    may("memory", Kind::Int),
    may("disk", Kind::Int),
    may("autoStopInterval", Kind::Int),
    may("autoPauseInterval", Kind::Int),
    may("autoArchiveInterval", Kind::Int),
    may("autoDeleteInterval", Kind::Int),
    may("ttlMinutes", Kind::Int),
    may("queueTimeout", Kind::Int),
    may("volumes", Kind::Many(VOLUME)),
    may("buildInfo", Kind::One(BUILD)),
    may("linkedSandbox", Kind::Text),
    may("secrets", Kind::TextMaps),
];

pub const LABELS: &[Field] = &[need("labels", Kind::TextMap)];
pub const VERBOSE: &[Field] = &[may("verbose", Kind::Bool)];
pub const STOP: &[Field] = &[may("force", Kind::Bool)];

pub const LIST: &[Field] = &[
    may("cursor", Kind::Text),
    may("limit", Kind::Int),
    may("id", Kind::Text),
    may("name", Kind::Text),
    may("labels", Kind::Text),
    may("includeErroredDeleted", Kind::Bool),
    may("includeWarm", Kind::Bool),
    may("states", Kind::Text),
    may("snapshots", Kind::Text),
    may("regionIds", Kind::Text),
    may("sandboxClasses", Kind::Text),
    may("isPublic", Kind::Bool),
    may("isRecoverable", Kind::Bool),
    may("sort", Kind::Text),
    may("order", Kind::OneOf(&["asc", "desc"])),
];

pub const EXECUTE: &[Field] =
    &[need("command", Kind::Text), may("cwd", Kind::Text), may("envs", Kind::TextMap), may("timeout", Kind::Int)];

pub const SESSION: &[Field] = &[need("sessionId", Kind::Text)];

pub const SESSION_EXECUTE: &[Field] =
    &[need("command", Kind::Text), may("async", Kind::Bool), may("runAsync", Kind::Bool), may("suppressInputEcho", Kind::Bool)];

pub const LOGS: &[Field] = &[may("follow", Kind::Bool)];

pub const PATH: &[Field] = &[need("path", Kind::Text)];
pub const PERMISSIONS: &[Field] =
    &[need("path", Kind::Text), may("owner", Kind::Text), may("group", Kind::Text), may("mode", Kind::Text)];
pub const PATHS: &[Field] = &[need("paths", Kind::Texts)];
