//! From text to a syntax tree, macros included.

use std::sync::Arc;

use crate::ast::{Entry, Expr, Item, Literal, Macro, MacroKind, Node, Select};
use crate::cost::charge::Charge;
use crate::error::Issue;
use crate::lexer::{Token, tokens};

const DEPTH: usize = 100;

/// What an expression may begin with, in upstream's words.
const EXPRESSION: &str = "{'[', '{', '(', '.', '-', '!', 'true', 'false', 'null', NUM_FLOAT, NUM_INT, NUM_UINT, STRING, BYTES, IDENTIFIER}";

const RESERVED: [&str; 18] = [
    "as",
    "break",
    "const",
    "continue",
    "else",
    "for",
    "function",
    "if",
    "import",
    "let",
    "loop",
    "package",
    "namespace",
    "return",
    "var",
    "void",
    "while",
    "in",
];

pub(crate) fn parse(text: &str) -> Result<Expr, Vec<Issue>> {
    // What is no token is reported and left out, so that the rest can be looked at as well.
    let (tokens, mut issues) = tokens(text);
    let mut parser = Parser { tokens, next: 0, depth: 0 };
    let parsed = parser.expression().and_then(|expr| match parser.peek() {
        Token::End => Ok(expr),
        _ => Err(parser.unexpected("<EOF>")),
    });
    match parsed {
        Ok(expr) if issues.is_empty() => return Ok(expr),
        Ok(_) => {}
        Err(issue) => issues.push(issue),
    }
    Err(issues)
}

struct Parser {
    tokens: Vec<(Token, usize)>,
    next: usize,
    depth: usize,
}

impl Parser {
    // The last token is `End` and is never consumed, so that there is always a next one.
    fn peek(&self) -> &Token {
        &self.tokens[self.next].0
    }

    fn at(&self) -> usize {
        self.tokens[self.next].1
    }

    fn advance(&mut self) -> (Token, usize) {
        let token = self.tokens[self.next].clone();
        if token.0 != Token::End {
            self.next += 1;
        }
        token
    }

    fn sign(&self) -> &'static str {
        match self.peek() {
            Token::Sign(sign) => sign,
            _ => "",
        }
    }

    fn eat(&mut self, sign: &str) -> bool {
        let found = self.sign() == sign;
        if found {
            self.next += 1;
        }
        found
    }

    fn expect(&mut self, sign: &'static str) -> Result<usize, Issue> {
        let at = self.at();
        if self.eat(sign) {
            return Ok(at);
        }
        let mut issue = self.unexpected(&format!("'{sign}'"));
        if sign == ")" && *self.peek() == Token::End {
            issue.problem = "Syntax error: missing ')' at '<EOF>'".into();
        }
        Err(issue)
    }

    fn unexpected(&self, expected: &str) -> Issue {
        let found = match self.peek() {
            Token::End => "<EOF>".to_owned(),
            Token::Sign(sign) => (*sign).to_owned(),
            Token::Ident(name) => name.to_string(),
            Token::Int(number) => number.to_string(),
            Token::IntMinimum => "9223372036854775808".to_owned(),
            Token::Uint(number) => format!("{number}u"),
            Token::Double(number) => number.to_string(),
            Token::Text(text) => format!("\"{text}\""),
            Token::Bytes(_) => "b\"...\"".to_owned(),
        };
        let problem = if expected == "<EOF>" {
            format!("Syntax error: extraneous input '{found}' expecting <EOF>")
        } else {
            format!("Syntax error: mismatched input '{found}' expecting {expected}")
        };
        Issue::new(self.at(), problem)
    }

    fn nested<T>(&mut self, read: impl FnOnce(&mut Self) -> Result<T, Issue>) -> Result<T, Issue> {
        if self.depth >= DEPTH {
            return Err(Issue::new(self.at(), format!("expression recursion limit exceeded: {DEPTH}")));
        }
        self.depth += 1;
        let result = read(self);
        self.depth -= 1;
        result
    }

    fn expression(&mut self) -> Result<Expr, Issue> {
        self.nested(|parser| {
            let condition = parser.or()?;
            let at = parser.at();
            if !parser.eat("?") {
                return Ok(condition);
            }
            let yes = parser.or()?;
            parser.expect(":")?;
            let no = parser.expression()?;
            Ok(Expr::new(at, Node::Conditional(Box::new(condition), Box::new(yes), Box::new(no))))
        })
    }

    fn or(&mut self) -> Result<Expr, Issue> {
        let mut terms = vec![(0, self.and()?)];
        while self.sign() == "||" {
            let (_, at) = self.advance();
            terms.push((at, self.and()?));
        }
        Ok(balanced(terms, Node::Or))
    }

    fn and(&mut self) -> Result<Expr, Issue> {
        let mut terms = vec![(0, self.relation()?)];
        while self.sign() == "&&" {
            let (_, at) = self.advance();
            terms.push((at, self.relation()?));
        }
        Ok(balanced(terms, Node::And))
    }

    fn relation(&mut self) -> Result<Expr, Issue> {
        let mut left = self.sum()?;
        let mut length = 0;
        loop {
            let function = match self.peek() {
                Token::Sign("<") => "_<_",
                Token::Sign("<=") => "_<=_",
                Token::Sign(">") => "_>_",
                Token::Sign(">=") => "_>=_",
                Token::Sign("==") => "_==_",
                Token::Sign("!=") => "_!=_",
                Token::Ident(name) if &**name == "in" => "@in",
                _ => return Ok(left),
            };
            left = self.binary(function, left, &mut length, Self::sum)?;
        }
    }

    fn sum(&mut self) -> Result<Expr, Issue> {
        let mut left = self.product()?;
        let mut length = 0;
        loop {
            let function = match self.sign() {
                "+" => "_+_",
                "-" => "_-_",
                _ => return Ok(left),
            };
            left = self.binary(function, left, &mut length, Self::product)?;
        }
    }

    fn product(&mut self) -> Result<Expr, Issue> {
        let mut left = self.unary()?;
        let mut length = 0;
        loop {
            let function = match self.sign() {
                "*" => "_*_",
                "/" => "_/_",
                "%" => "_%_",
                _ => return Ok(left),
            };
            left = self.binary(function, left, &mut length, Self::unary)?;
        }
    }

    /// Chains of operators make deep trees on the left, so their length counts as depth.
    fn binary(
        &mut self,
        function: &str,
        left: Expr,
        length: &mut usize,
        operand: fn(&mut Self) -> Result<Expr, Issue>,
    ) -> Result<Expr, Issue> {
        let (_, at) = self.advance();
        *length += 1;
        if *length > DEPTH {
            return Err(Issue::new(at, format!("expression recursion limit exceeded: {DEPTH}")));
        }
        let right = operand(self)?;
        Ok(call(at, function, false, vec![left, right]))
    }

    fn unary(&mut self) -> Result<Expr, Issue> {
        let at = self.at();
        if self.eat("!") {
            let operand = self.nested(Self::unary)?;
            return Ok(call(at, "!_", false, vec![operand]));
        }
        if self.sign() != "-" {
            return self.member();
        }
        self.next += 1;
        let literal = match *self.peek() {
            Token::Int(number) => Some(Literal::Int(-number)),
            Token::IntMinimum => Some(Literal::Int(i64::MIN)),
            Token::Double(number) => Some(Literal::Double(-number)),
            _ => None,
        };
        if let Some(literal) = literal {
            self.next += 1;
            return self.members(Expr::new(at, Node::Literal(literal)));
        }
        let operand = self.nested(Self::unary)?;
        Ok(call(at, "-_", false, vec![operand]))
    }

    fn member(&mut self) -> Result<Expr, Issue> {
        let primary = self.primary()?;
        self.members(primary)
    }

    fn members(&mut self, mut expr: Expr) -> Result<Expr, Issue> {
        for _ in 0..DEPTH * 2 {
            let at = self.at();
            if self.eat(".") {
                let optional = self.eat("?");
                let field = match self.advance() {
                    (Token::Ident(name), _) if &*name != "in" => name,
                    _ => {
                        return Err(Issue::new(self.at(), "Syntax error: no viable alternative at input '.'"));
                    }
                };
                let open = self.at();
                if !optional && self.eat("(") {
                    let arguments = self.arguments(")")?;
                    expr = member_call(open, &field, expr, arguments)?;
                } else {
                    expr = Expr::new(at, Node::Select(Select { operand: Box::new(expr), field, test: false, optional }));
                }
            } else if self.eat("[") {
                let function = if self.eat("?") { "_[?_]" } else { "_[_]" };
                let index = self.expression()?;
                self.expect("]")?;
                expr = call(at, function, false, vec![expr, index]);
            } else {
                return Ok(expr);
            }
        }
        Err(Issue::new(self.at(), "expression recursion limit exceeded"))
    }

    fn arguments(&mut self, close: &'static str) -> Result<Vec<Expr>, Issue> {
        let mut out = Vec::new();
        if self.eat(close) {
            return Ok(out);
        }
        loop {
            out.push(self.expression()?);
            if !self.eat(",") {
                self.expect(close)?;
                return Ok(out);
            }
        }
    }

    fn primary(&mut self) -> Result<Expr, Issue> {
        let at = self.at();
        let literal = |literal| Ok(Expr::new(at, Node::Literal(literal)));
        match self.peek().clone() {
            Token::Int(number) => {
                self.next += 1;
                literal(Literal::Int(number))
            }
            Token::IntMinimum => Err(Issue::new(at, "invalid int literal")),
            Token::Uint(number) => {
                self.next += 1;
                literal(Literal::Uint(number))
            }
            Token::Double(number) => {
                self.next += 1;
                literal(Literal::Double(number))
            }
            Token::Text(text) => {
                self.next += 1;
                literal(Literal::Text(text))
            }
            Token::Bytes(bytes) => {
                self.next += 1;
                literal(Literal::Bytes(bytes))
            }
            Token::Ident(name) => self.identifier(&name, at),
            Token::Sign("(") => {
                self.next += 1;
                let inner = self.expression()?;
                self.expect(")")?;
                Ok(inner)
            }
            Token::Sign("[") => self.list(at),
            Token::Sign("{") => self.map(at),
            Token::Sign(".") if matches!(self.tokens.get(self.next + 1), Some((Token::Ident(_), _))) => {
                self.next += 1;
                self.primary()
            }
            Token::Sign(_) | Token::End => Err(self.unexpected(EXPRESSION)),
        }
    }

    fn identifier(&mut self, name: &Arc<str>, at: usize) -> Result<Expr, Issue> {
        let literal = match &**name {
            "true" => Some(Literal::Bool(true)),
            "false" => Some(Literal::Bool(false)),
            "null" => Some(Literal::Null),
            "in" => return Err(self.unexpected(EXPRESSION)),
            _ => None,
        };
        self.next += 1;
        if let Some(literal) = literal {
            return Ok(Expr::new(at, Node::Literal(literal)));
        }
        if RESERVED.contains(&&**name) {
            return Err(Issue::new(at, format!("reserved identifier: {name}")));
        }
        let open = self.at();
        if self.eat("(") {
            let arguments = self.arguments(")")?;
            return global_call(open, name, arguments);
        }
        Ok(Expr::new(at, Node::Ident(name.clone())))
    }

    fn list(&mut self, at: usize) -> Result<Expr, Issue> {
        self.next += 1;
        let mut items = Vec::new();
        while !self.eat("]") {
            let optional = self.eat("?");
            items.push(Item { optional, value: self.expression()? });
            if !self.eat(",") {
                if !self.eat("]") {
                    return Err(self.unexpected("{']', ','}"));
                }
                break;
            }
        }
        Ok(Expr::new(at, Node::List(items)))
    }

    fn map(&mut self, at: usize) -> Result<Expr, Issue> {
        self.next += 1;
        let mut entries = Vec::new();
        while !self.eat("}") {
            let optional = self.eat("?");
            let key = self.expression()?;
            self.expect(":")?;
            entries.push(Entry { optional, key, value: self.expression()? });
            if !self.eat(",") {
                if !self.eat("}") {
                    return Err(self.unexpected("{'}', ','}"));
                }
                break;
            }
        }
        Ok(Expr::new(at, Node::Map(entries)))
    }
}

/// A long chain of `&&` or `||` as a shallow tree; the logic is associative, errors included.
fn balanced(mut terms: Vec<(usize, Expr)>, join: fn(Box<Expr>, Box<Expr>) -> Node) -> Expr {
    if terms.len() == 1
        && let Some((_, only)) = terms.pop()
    {
        return only;
    }
    let right = terms.split_off(terms.len().div_ceil(2));
    let at = right.first().map_or(0, |(at, _)| *at);
    Expr::new(at, join(Box::new(balanced(terms, join)), Box::new(balanced(right, join))))
}

fn call(at: usize, function: &str, member: bool, arguments: Vec<Expr>) -> Expr {
    Expr::new(at, Node::Call { function: function.into(), member, arguments, charge: Charge::default() })
}

fn global_call(at: usize, name: &Arc<str>, mut arguments: Vec<Expr>) -> Result<Expr, Issue> {
    if &**name == "has" && arguments.len() == 1 {
        return match arguments.pop() {
            Some(Expr { node: Node::Select(select), .. }) if !select.test => {
                Ok(Expr::new(at, Node::Select(Select { test: true, ..select })))
            }
            Some(other) => Err(Issue::new(other.at, "invalid argument to has() macro")),
            None => Err(Issue::new(at, "invalid argument to has() macro")),
        };
    }
    Ok(call(at, name, false, arguments))
}

fn member_call(at: usize, name: &Arc<str>, target: Expr, mut arguments: Vec<Expr>) -> Result<Expr, Issue> {
    use MacroKind as Kind;
    // Kind, variables, bodies.
    let expansion = match (&**name, arguments.len()) {
        ("all", 2) => Some((Kind::All, 1)),
        ("all", 3) => Some((Kind::All, 2)),
        ("exists", 2) => Some((Kind::Exists, 1)),
        ("exists", 3) => Some((Kind::Exists, 2)),
        ("exists_one", 2) => Some((Kind::ExistsOne, 1)),
        ("exists_one" | "existsOne", 3) => Some((Kind::ExistsOne, 2)),
        ("map", 2 | 3) => Some((Kind::Map, 1)),
        ("filter", 2) => Some((Kind::Filter, 1)),
        ("transformList", 3 | 4) => Some((Kind::TransformList, 2)),
        ("transformMap", 3 | 4) => Some((Kind::TransformMap, 2)),
        ("transformMapEntry", 3 | 4) => Some((Kind::TransformMapEntry, 2)),
        ("sortBy", 2) => Some((Kind::SortBy, 1)),
        ("optMap", 2) => Some((Kind::OptMap, 1)),
        ("optFlatMap", 2) => Some((Kind::OptFlatMap, 1)),
        _ => None,
    };
    let Some((kind, count)) = expansion else {
        arguments.insert(0, target);
        return Ok(call(at, name, true, arguments));
    };
    let bodies = arguments.split_off(count);
    let variables: Vec<Arc<str>> = arguments.into_iter().map(variable_name).collect::<Result<_, _>>()?;
    if let [first, second] = &variables[..]
        && first == second
    {
        return Err(Issue::new(at, format!("duplicate variable name: {first}")));
    }
    Ok(Expr::new(at, Node::Macro(Box::new(Macro { kind, range: target, variables, bodies }))))
}

fn variable_name(expr: Expr) -> Result<Arc<str>, Issue> {
    match expr.node {
        Node::Ident(name) => Ok(name),
        _ => Err(Issue::new(expr.at, "argument must be a simple name")),
    }
}
