//! Reads a filter from its JSON. Every error says where it is and what could stand there.

use serde_json::{Map, Value};

use crate::domain::problem::shorten;

use super::{CONDITIONS_MAX, DEPTH_MAX, FilterError, LIST_MAX, Node, Test};

const OPERATORS: &str =
    "eq, ne, in, nin, gt, gte, lt, lte, exists, starts_with, ends_with and contains";

/// Where the reading is, and how many conditions it has seen.
#[derive(Default)]
pub(super) struct Reader {
    path: String,
    conditions: usize,
}

impl Reader {
    pub(super) fn node(&mut self, source: &Value, depth: usize) -> Result<Node, FilterError> {
        let Value::Object(members) = source else {
            let shown = shorten(&source.to_string(), 80);
            return Err(self.error(&format!(
                "{shown} is no filter; write an object of conditions, for example \
                 {{\"/amount\": {{\"gte\": 1000}}}}"
            )));
        };
        if depth > DEPTH_MAX {
            return Err(self.error(&format!("conditions are nested deeper than {DEPTH_MAX}")));
        }
        let mut nodes = Vec::new();
        for (name, value) in members {
            let outside = self.enter(name);
            match name.as_str() {
                "all" => nodes.push(Node::All(self.list_of_nodes(value, depth)?)),
                "any" => nodes.push(Node::Any(self.list_of_nodes(value, depth)?)),
                "not" => nodes.push(Node::Not(Box::new(self.node(value, depth + 1)?))),
                pointer => {
                    self.check_pointer(pointer)?;
                    self.tests(pointer, value, &mut nodes)?;
                }
            }
            self.path.truncate(outside);
        }
        Ok(if nodes.len() == 1 { nodes.remove(0) } else { Node::All(nodes) })
    }

    fn list_of_nodes(&mut self, value: &Value, depth: usize) -> Result<Vec<Node>, FilterError> {
        let Some(items) = value.as_array().filter(|items| !items.is_empty()) else {
            return Err(self.error("it takes a list of at least one object of conditions"));
        };
        let mut nodes = Vec::new();
        for (index, item) in items.iter().enumerate() {
            let outside = self.path.len();
            self.path.extend(["[", &index.to_string(), "]"]);
            nodes.push(self.node(item, depth + 1)?);
            self.path.truncate(outside);
        }
        Ok(nodes)
    }

    fn check_pointer(&self, pointer: &str) -> Result<(), FilterError> {
        if !pointer.is_empty() && !pointer.starts_with('/') {
            return Err(self.error(&format!(
                "it is no JSON Pointer and none of all, any, not; write \"/{pointer}\""
            )));
        }
        let mut escapes = pointer.split('~').skip(1);
        if escapes.any(|after| !after.starts_with(['0', '1'])) {
            return Err(self.error("a ~ in a JSON Pointer is written ~0, and a / inside a name ~1"));
        }
        Ok(())
    }

    fn tests(
        &mut self,
        pointer: &str,
        value: &Value,
        nodes: &mut Vec<Node>,
    ) -> Result<(), FilterError> {
        let bare;
        let operators = match value {
            Value::Object(operators) if operators.is_empty() => {
                return Err(self.error(&format!("it names no operator; there are {OPERATORS}")));
            }
            Value::Object(operators) => operators,
            value => {
                bare = Map::from_iter([("eq".to_owned(), value.clone())]);
                &bare
            }
        };
        for (operator, operand) in operators {
            let outside = self.enter(operator);
            self.conditions += 1;
            if self.conditions > CONDITIONS_MAX {
                return Err(self.error(&format!("it has more than {CONDITIONS_MAX} conditions")));
            }
            let (test, negated) = self.test(operator, operand)?;
            let node = Node::At { pointer: pointer.to_owned(), test };
            nodes.push(if negated { Node::Not(Box::new(node)) } else { node });
            self.path.truncate(outside);
        }
        Ok(())
    }

    /// The test, and whether it must not hold.
    fn test(&self, operator: &str, operand: &Value) -> Result<(Test, bool), FilterError> {
        let test = match operator {
            "eq" | "ne" => Test::Equal(operand.clone()),
            "in" | "nin" => Test::In(self.list(operand)?),
            "gt" => Test::Greater(self.bound(operand)?),
            "gte" => Test::GreaterOrEqual(self.bound(operand)?),
            "lt" => Test::Less(self.bound(operand)?),
            "lte" => Test::LessOrEqual(self.bound(operand)?),
            "starts_with" => Test::StartsWith(self.text(operand)?),
            "ends_with" => Test::EndsWith(self.text(operand)?),
            "contains" => Test::Contains(operand.clone()),
            "exists" => match operand {
                Value::Bool(exists) => return Ok((Test::Exists, !exists)),
                other => return Err(self.wrong("true or false", other)),
            },
            _ => {
                return Err(self.error(&format!(
                    "there is no such operator; there are {OPERATORS}. \
                     To compare with an object, use eq"
                )));
            }
        };
        Ok((test, matches!(operator, "ne" | "nin")))
    }

    fn list(&self, operand: &Value) -> Result<Vec<Value>, FilterError> {
        match operand {
            Value::Array(values) if values.len() > LIST_MAX => Err(self
                .error(&format!("the list has {} values; {LIST_MAX} are allowed", values.len()))),
            Value::Array(values) if !values.is_empty() => Ok(values.clone()),
            other => Err(self.wrong("a list of at least one value", other)),
        }
    }

    fn bound(&self, operand: &Value) -> Result<Value, FilterError> {
        match operand {
            Value::Number(_) | Value::String(_) => Ok(operand.clone()),
            other => Err(self.wrong("a number or a text", other)),
        }
    }

    fn text(&self, operand: &Value) -> Result<String, FilterError> {
        operand.as_str().map(str::to_owned).ok_or_else(|| self.wrong("a text", operand))
    }

    /// Goes into a member; gives the length of the path to come back to.
    fn enter(&mut self, name: &str) -> usize {
        let outside = self.path.len();
        if outside > 0 {
            self.path.push('.');
        }
        // A name can be long, an error should not be.
        let shown =
            if name.is_empty() { "\"\"".to_owned() } else { name.chars().take(80).collect() };
        self.path.push_str(&shown);
        outside
    }

    fn wrong(&self, wanted: &str, operand: &Value) -> FilterError {
        let shown = shorten(&operand.to_string(), 80);
        self.error(&format!("it takes {wanted}, not {shown}"))
    }

    fn error(&self, problem: &str) -> FilterError {
        FilterError { path: self.path.clone(), problem: problem.to_owned() }
    }
}
