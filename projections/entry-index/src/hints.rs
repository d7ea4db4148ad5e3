//! Why no entry fits.

use tantivy::schema::Field;

use crate::error::IndexError;
use crate::groups::{self, Group, Lot};

/// Words that are named.
const MOST: usize = 3;

/// What to tell whoever finds no entry of a house, which knows nothing of any other.
pub(crate) fn why_none(lots: &[Lot<'_>], field: Field, groups: &[Group]) -> Result<Vec<String>, IndexError> {
    let lacks = |says: &dyn Fn(&Group) -> bool, group: &Group| !says(group) && !group.is_bridged(|n| says(&groups[n]));
    let words = || groups.iter().filter(|group| group.factor == 1.0);
    let unsaid: Vec<&Group> = words().filter(|group| lacks(&Group::is_known, group)).take(MOST).collect();
    if !unsaid.is_empty() {
        return unsaid.into_iter().map(|group| groups::unsaid(lots, field, group)).collect();
    }
    let may_be_found = |group: &Group| group.hits.iter().any(|hits| !hits.is_empty());
    let left_out = words().filter(|group| lacks(&may_be_found, group)).take(MOST);
    let told: Vec<String> =
        left_out.map(|group| format!("nothing that the filter lets through says {:?}", group.word.term)).collect();
    Ok(if told.is_empty() { vec!["no entry has all of these words".to_owned()] } else { told })
}
