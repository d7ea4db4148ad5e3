//! Which messages a search looks at, as predicates over columns that are indexed. `search-prefilter-pushdown`: they hold before anything
//! is ranked.

use events::session::{Role, SessionId, Timestamp};

use crate::read::literal;

/// Where a session was held.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Project {
    Is(String),
    /// Its name begins so.
    Begins(String),
}

/// Which messages. What is `None` holds for all.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Filter {
    /// One of these; of none at all if there are none.
    pub project: Option<Vec<Project>>,
    pub session: Option<SessionId>,
    pub source_agent: Option<String>,
    pub role: Option<Role>,
    /// From this moment on.
    pub since: Option<Timestamp>,
    /// Before this moment.
    pub until: Option<Timestamp>,
}

impl Project {
    fn sql(&self) -> String {
        match self {
            Self::Is(name) => format!("project = {}", literal(name)),
            Self::Begins(name) => match after(name) {
                Some(after) => format!("(project >= {} and project < {})", literal(name), literal(&after)),
                None => format!("project >= {}", literal(name)),
            },
        }
    }
}

/// The first text behind all that begin so: a range is looked up in an index, a pattern is not always.
fn after(prefix: &str) -> Option<String> {
    let mut kept = prefix.to_owned();
    while let Some(last) = kept.pop() {
        let next = (u32::from(last) + 1..=u32::from(char::MAX)).find_map(char::from_u32);
        if let Some(next) = next {
            kept.push(next);
            return Some(kept);
        }
    }
    None
}

fn moment(at: Timestamp) -> String {
    format!("timestamp '{at}'")
}

impl Filter {
    /// `None`: nothing is left out.
    pub(crate) fn sql(&self) -> Option<String> {
        let mut all = Vec::new();
        if let Some(projects) = &self.project {
            let any: Vec<_> = projects.iter().map(Project::sql).collect();
            all.push(if any.is_empty() { "false".to_owned() } else { format!("({})", any.join(" or ")) });
        }
        all.extend(self.session.as_ref().map(|it| format!("session_id = {}", literal(it.as_str()))));
        all.extend(self.source_agent.as_ref().map(|it| format!("source_agent = {}", literal(it))));
        all.extend(self.role.map(|it| format!("role = {}", literal(it.as_str()))));
        all.extend(self.since.map(|it| format!("timestamp >= {}", moment(it))));
        all.extend(self.until.map(|it| format!("timestamp < {}", moment(it))));
        (!all.is_empty()).then(|| all.join(" and "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_begins_so_is_a_range_that_ends_behind_it() {
        for (prefix, behind) in [("/p", Some("/q")), ("a\u{d7ff}", Some("a\u{e000}")), ("a\u{10ffff}", Some("b")), ("", None)] {
            assert_eq!(after(prefix).as_deref(), behind, "{prefix:?}");
        }
        assert_eq!(Project::Begins(String::new()).sql(), "project >= ''");
    }

    #[test]
    fn what_is_asked_for_is_one_predicate() {
        assert_eq!(Filter::default().sql(), None);
        let projects = vec![Project::Is("it's".into()), Project::Begins("/p/".into())];
        let filter = Filter {
            project: Some(projects),
            role: Some(Role::User),
            since: Some("2026-01-01T00:00:00.5Z".parse().unwrap()),
            ..Filter::default()
        };
        let expected = "(project = 'it''s' or (project >= '/p/' and project < '/p0')) and role = 'user' and timestamp >= timestamp '2026-01-01T00:00:00.5Z'";
        assert_eq!(filter.sql().as_deref(), Some(expected));
        assert_eq!(Filter { project: Some(Vec::new()), ..Filter::default() }.sql().as_deref(), Some("false"));
    }
}
