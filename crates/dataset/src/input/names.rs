//! Names of columns.

use std::collections::HashSet;

use arrow::datatypes::{DataType, Fields, Schema};

/// Returns the type of the column of this name, or of the field at a path such as `o.a`, through
/// lists as well. `None` if there is none.
pub fn type_of_column(schema: &Schema, name: &str) -> Option<DataType> {
    fn below<'a>(data_type: &'a DataType, name: &str) -> Option<&'a DataType> {
        match data_type {
            DataType::Struct(fields) => field_type(fields, name),
            DataType::List(item) => below(item.data_type(), name),
            _ => None,
        }
    }
    fn field_type<'a>(fields: &'a Fields, path: &str) -> Option<&'a DataType> {
        if let Some((_, field)) = fields.find(path) {
            return Some(field.data_type());
        }
        let (name, rest) = path.split_once('.')?;
        below(fields.find(name)?.1.data_type(), rest)
    }
    field_type(schema.fields(), name).cloned()
}

/// Returns names of which each is there once: the second `x` is `x_1`, the third `x_2`, unless
/// another column has that name. A column without a name gets the name of its position.
pub fn number_duplicates(names: impl IntoIterator<Item = String>) -> Vec<String> {
    let name = |(place, name): (usize, String)| if name.is_empty() { format!("column_{}", place + 1) } else { name };
    let mut names: Vec<String> = names.into_iter().enumerate().map(name).collect();
    let known: HashSet<String> = names.iter().cloned().collect();
    let (mut given, mut seen) = (HashSet::new(), HashSet::new());
    for name in &mut names {
        if seen.insert(name.clone()) {
            continue;
        }
        let numbered = (1..).map(|number| format!("{name}_{number}"));
        let free = numbered.filter(|name| !known.contains(name)).find(|name| !given.contains(name));
        *name = free.expect("there is a number that no name has");
        given.insert(name.clone());
    }
    names
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_are_there_already_are_not_given() {
        let numbered = |names: &[&str]| number_duplicates(names.iter().map(|name| (*name).to_owned())).join(",");
        assert_eq!(numbered(&["x", "y"]), "x,y");
        assert_eq!(numbered(&["x", "x", "x"]), "x,x_1,x_2");
        assert_eq!(numbered(&["x", "x", "x_1", "x"]), "x,x_2,x_1,x_3");
        assert_eq!(numbered(&["", "a", ""]), "column_1,a,column_3");
    }
}
