//! `read_csv('a.csv', delimiter => ';')` and the like, in the place of a table.
//!
//! A call becomes the table `'a.csv?format=csv&delimiter=;'`, which is what a path with options is
//! in all commands.

use std::ops::ControlFlow;

use anyhow::{Result, anyhow, bail};
use datafusion::sql::{
    parser::{CopyToSource, Statement},
    sqlparser::ast::{
        BinaryOperator, Expr, FunctionArg, FunctionArgExpr, FunctionArgOperator, Ident, ObjectName, ObjectNamePart,
        TableFactor, UnaryOperator, Value, VisitMut, VisitorMut,
    },
};

use crate::inputs::with_options;

/// Puts the tables of files in the place of calls that read them.
///
/// # Errors
/// If a call has no path, or an argument is not a constant.
pub fn replace_calls(statement: &mut Statement) -> Result<()> {
    let mut calls = Calls;
    let flow = match statement {
        Statement::Statement(statement) => statement.visit(&mut calls),
        Statement::Explain(explain) => return replace_calls(&mut explain.statement),
        Statement::CopyTo(copy) => match &mut copy.source {
            CopyToSource::Query(query) => query.visit(&mut calls),
            CopyToSource::Relation(_) => ControlFlow::Continue(()),
        },
        _ => ControlFlow::Continue(()),
    };
    match flow {
        ControlFlow::Continue(()) => Ok(()),
        ControlFlow::Break(error) => Err(error),
    }
}

struct Calls;

impl VisitorMut for Calls {
    type Break = anyhow::Error;

    fn pre_visit_table_factor(&mut self, table: &mut TableFactor) -> ControlFlow<anyhow::Error> {
        let replaced = match table {
            TableFactor::Table { name, args: args @ Some(_), .. } => {
                let Some(format) = format_of(name) else { return ControlFlow::Continue(()) };
                let call = args.take().map(|args| args.args).unwrap_or_default();
                path_of(&name.to_string(), format, &call).map(|path| *name = named(path))
            }
            TableFactor::Function { name, args, alias, lateral: false, .. } => {
                let Some(format) = format_of(name) else { return ControlFlow::Continue(()) };
                match path_of(&name.to_string(), format, args) {
                    Ok(path) => {
                        *table = TableFactor::Table {
                            name: named(path),
                            alias: alias.take(),
                            args: None,
                            with_hints: vec![],
                            version: None,
                            with_ordinality: false,
                            partitions: vec![],
                            json_path: None,
                            sample: None,
                            index_hints: vec![],
                        };
                        Ok(())
                    }
                    Err(error) => Err(error),
                }
            }
            _ => Ok(()),
        };
        replaced.map_or_else(ControlFlow::Break, ControlFlow::Continue)
    }
}

/// Returns the format that a function reads; `None` if it reads no files.
fn format_of(function: &ObjectName) -> Option<&'static str> {
    let [ObjectNamePart::Identifier(name)] = &function.0[..] else { return None };
    Some(match name.value.to_ascii_lowercase().as_str() {
        "read_csv" | "read_csv_auto" => "csv",
        "read_json" | "read_json_auto" | "read_ndjson" | "read_ndjson_auto" => "json",
        "read_avro" => "avro",
        "read_parquet" => "parquet",
        "read_arrow" => "arrow",
        _ => return None,
    })
}

fn named(path: String) -> ObjectName {
    ObjectName(vec![ObjectNamePart::Identifier(Ident::with_quote('\'', path))])
}

/// Returns the path with its options that a call reads.
fn path_of(function: &str, format: &str, args: &[FunctionArg]) -> Result<String> {
    let mut args = args.iter();
    let path = match args.next() {
        Some(FunctionArg::Unnamed(FunctionArgExpr::Expr(Expr::Array(paths)))) => {
            let paths = paths.elem.iter().map(text).collect::<Option<Vec<_>>>().unwrap_or_default();
            (!paths.is_empty())
                .then(|| if paths.len() == 1 { paths[0].clone() } else { format!("{{{}}}", paths.join(",")) })
        }
        Some(FunctionArg::Unnamed(FunctionArgExpr::Expr(path))) => text(path),
        _ => None,
    };
    let path = path.ok_or_else(|| anyhow!("{function} takes a path first, as in {function}('events.csv')"))?;
    let mut options = vec![("format".to_owned(), format.to_owned())];
    for arg in args {
        let (name, value) = named_value(arg).ok_or_else(|| {
            anyhow!("{function} takes options by name with constant values, as in types => 'zip=text', not {arg}")
        })?;
        match value {
            Constant::One(value) => options.push((name, value)),
            Constant::List(values) => options.extend(values.into_iter().map(|value| (name.clone(), value))),
        }
    }
    let unknown = options.iter().find(|(name, _)| annulus_dataset::InputOptions::find_option(name).is_none());
    if let Some((name, _)) = unknown {
        // Its text lists the options.
        let error = annulus_dataset::InputOptions::default().set(name, "");
        bail!("{function}: {}", error.err().map(|error| error.to_string()).unwrap_or_default());
    }
    Ok(with_options(&path, &options))
}

/// The value of an option.
enum Constant {
    One(String),
    List(Vec<String>),
}

fn named_value(arg: &FunctionArg) -> Option<(String, Constant)> {
    match arg {
        FunctionArg::Named {
            name,
            arg: FunctionArgExpr::Expr(value),
            operator:
                FunctionArgOperator::RightArrow
                | FunctionArgOperator::Equals
                | FunctionArgOperator::Assignment
                | FunctionArgOperator::Colon
                | FunctionArgOperator::Value,
        } => Some((name.value.clone(), constant(value)?)),
        FunctionArg::ExprNamed { name: Expr::Identifier(name), arg: FunctionArgExpr::Expr(value), .. } => {
            Some((name.value.clone(), constant(value)?))
        }
        FunctionArg::Unnamed(FunctionArgExpr::Expr(Expr::BinaryOp { left, op: BinaryOperator::Eq, right })) => {
            let Expr::Identifier(name) = &**left else { return None };
            Some((name.value.clone(), constant(right)?))
        }
        _ => None,
    }
}

fn constant(value: &Expr) -> Option<Constant> {
    match value {
        Expr::Array(values) => values.elem.iter().map(text).collect::<Option<Vec<_>>>().map(Constant::List),
        // Types as a map from columns.
        Expr::Dictionary(fields) => {
            let pairs = fields.iter().map(|field| Some(format!("{}={}", field.key.value, text(&field.value)?)));
            Some(Constant::One(pairs.collect::<Option<Vec<_>>>()?.join(",")))
        }
        value => text(value).map(Constant::One),
    }
}

/// Returns the text of a constant.
fn text(value: &Expr) -> Option<String> {
    match value {
        Expr::Value(value) => match &value.value {
            Value::Number(number, _) => Some(number.to_string()),
            Value::Boolean(value) => Some(value.to_string()),
            value => value.clone().into_string(),
        },
        Expr::Identifier(name) => Some(name.value.clone()),
        Expr::UnaryOp { op: UnaryOperator::Minus, expr } => Some(format!("-{}", text(expr)?)),
        _ => None,
    }
}
