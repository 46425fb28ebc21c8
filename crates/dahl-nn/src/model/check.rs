//! From a list of layers as somebody wrote them to a model, or the first thing wrong with them.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use super::{Entry, Extent, Model, ModelError, Place, param};
use crate::layers::Layer;

/// What `from` calls the model's input.
pub(super) const INPUT: &str = "input";

/// A layer as it was written: names not yet resolved, nothing checked.
#[derive(Clone, Debug)]
pub(super) struct Draft {
    pub name: Option<String>,
    pub layer: Arc<dyn Layer>,
    /// Names of what it reads; `None` is the layer before.
    pub from: Option<Vec<String>>,
    pub place: Place,
    /// Its line, if it stands in a file.
    pub line: Option<usize>,
}

/// What errors call a layer.
pub(super) fn label(name: Option<&str>, index: usize) -> String {
    name.map_or_else(|| format!("layers[{index}]"), str::to_owned)
}

impl Draft {
    fn error(&self, index: usize, message: String) -> ModelError {
        ModelError::Layer {
            kind: self.layer.name().into(),
            layer: label(self.name.as_deref(), index),
            message,
            place: self.place.clone(),
        }
    }
}

/// Checks everything and computes extents and parameters.
pub(super) fn assemble(
    name: String,
    input: [usize; 3],
    drafts: Vec<Draft>,
    file: Option<String>,
    place: Place,
) -> Result<Model, ModelError> {
    let wrong = |message| ModelError::Model {
        message,
        place: place.clone(),
    };
    let first = Extent::Image(input).checked();
    let mut extents = vec![first.map_err(|message| wrong(format!("input: {message}")))?];
    let Some(last) = drafts.last() else {
        return Err(wrong(
            "there are no layers; add at least a flatten and a linear".into(),
        ));
    };

    // Resolved over all names first, so that a layer further down is not called unknown.
    let mut names = HashMap::from([(INPUT, 0)]);
    for (i, draft) in drafts.iter().enumerate() {
        let Some(name) = draft.name.as_deref() else {
            continue;
        };
        check_name(name).map_err(|message| draft.error(i, message))?;
        if let Some(value) = names.insert(name, i + 1) {
            return Err(draft.error(
                i,
                format!("its name is already that of layers[{}]", value - 1),
            ));
        }
    }

    let mut layers: Vec<Entry> = Vec::with_capacity(drafts.len());
    let mut params = Vec::new();
    let mut keys = HashSet::new();
    let mut read = vec![false; drafts.len() + 1];
    for (i, draft) in drafts.iter().enumerate() {
        let from = resolve(draft, i, &names).map_err(|message| draft.error(i, message))?;
        from.iter().for_each(|&value| read[value] = true);
        let inputs: Vec<Extent> = from.iter().map(|&value| extents[value]).collect();
        let given = output(&*draft.layer, &inputs).map_err(|m| draft.error(i, m))?;
        let layer = Entry {
            name: draft.name.clone(),
            keys: draft.layer.keys().map_err(|m| draft.error(i, m))?,
            layer: draft.layer.clone(),
            from,
            line: draft.line,
        };
        for p in param::of_layer(i, &layer, inputs[0]).map_err(|m| draft.error(i, m))? {
            if !keys.insert(p.key.clone()) {
                let m = format!(
                    "another layer's weights are called {:?} too: rename one",
                    p.key
                );
                return Err(draft.error(i, m));
            }
            params.push(p);
        }
        extents.push(given);
        layers.push(layer);
    }

    let end = drafts.len() - 1;
    if let Some(i) = (0..end).find(|&i| !read[i + 1]) {
        let m = "nothing reads its output: name it in the `from` of a later layer, or remove it";
        return Err(drafts[i].error(i, m.into()));
    }
    if let Extent::Image(_) = extents[end + 1] {
        let m = format!(
            "the model ends with an image of {}, and must end with a score per class: \
             add a flatten and a linear",
            extents[end + 1]
        );
        return Err(last.error(end, m));
    }
    let total = params
        .iter()
        .try_fold(0usize, |n, p: &param::Param| n.checked_add(p.len()));
    if total.is_none_or(|n| n > super::MAX_ELEMENTS) {
        return Err(wrong("it has too many parameters altogether".into()));
    }
    Ok(Model {
        name,
        input,
        layers,
        augment: None,
        normalise: None,
        file,
        extents,
        params,
    })
}

/// What a layer gives when it reads values of these extents.
fn output(layer: &dyn Layer, inputs: &[Extent]) -> Result<Extent, String> {
    if inputs.len() > 1 && !layer.reads_many() {
        return Err(format!(
            "reads {} values; only add and concat read more than one: give `from` a single name",
            inputs.len()
        ));
    }
    layer.extent(inputs)?.checked()
}

/// Names become parts of keys, of file names and of tables.
fn check_name(name: &str) -> Result<(), String> {
    if name == INPUT {
        return Err(format!(
            "the name {INPUT:?} is the model's input: choose another"
        ));
    }
    let fits = |c: char| c.is_alphanumeric() || matches!(c, '_' | '-' | '.');
    if name.is_empty() || name.len() > 200 || !name.chars().all(fits) {
        return Err("a name has 1 to 200 letters, digits, `_`, `-` and `.`".into());
    }
    Ok(())
}

/// The values a layer reads.
fn resolve(draft: &Draft, i: usize, names: &HashMap<&str, usize>) -> Result<Vec<usize>, String> {
    let Some(from) = &draft.from else {
        return Ok(vec![i]);
    };
    if from.is_empty() {
        return Err("`from` is empty: leave it out to read the layer before".into());
    }
    let value = |name: &String| match names.get(name.as_str()) {
        Some(&value) if value <= i => Ok(value),
        Some(&value) if value == i + 1 => Err(format!("reads itself ({name:?})")),
        Some(_) => Err(format!(
            "reads {name:?}, which comes later: move that layer up"
        )),
        None => Err(format!(
            "reads {name:?}, and no layer has that name: give it with `name`, or use {INPUT:?}"
        )),
    };
    from.iter().map(value).collect()
}
