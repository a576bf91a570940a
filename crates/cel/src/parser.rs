//! The parser: from text to a syntax tree, macros included.

mod calls;

use std::ops::Range;
use std::sync::Arc;

use calls::{call, global_call, member_call};

use crate::ast::{Entry, Expr, Item, Literal, Node, Select};
use crate::error::Issue;
use crate::lexer::{Token, tokens};

const DEPTH: usize = 100;

/// The tokens that an expression may begin with, in upstream's words.
const EXPRESSION: &str = "{'[', '{', '(', '.', '-', '!', 'true', 'false', 'null', NUM_FLOAT, NUM_INT, NUM_UINT, STRING, BYTES, IDENTIFIER}";

/// The same where the arguments of a call may end, too.
const ARGUMENT: &str =
    "{'[', '{', '(', ')', '.', '-', '!', 'true', 'false', 'null', NUM_FLOAT, NUM_INT, NUM_UINT, STRING, BYTES, IDENTIFIER}";

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
    // Text that is no token is reported and left out, so that the rest can be looked at as well.
    let (tokens, mut issues) = tokens(text);
    let mut parser = Parser { text, tokens, next: 0, depth: 0, issues: Vec::new(), failed_at: None };
    let parsed = parser.expression().and_then(|expr| match parser.peek() {
        Token::End => Ok(expr),
        _ => Err(parser.too_much()),
    });
    let parsed = parsed.map_err(|issue| parser.report(issue));
    issues.append(&mut parser.issues);
    parsed.ok().filter(|_| issues.is_empty()).ok_or(issues)
}

struct Parser<'a> {
    text: &'a str,
    tokens: Vec<(Token, Range<usize>)>,
    next: usize,
    depth: usize,
    issues: Vec<Issue>,
    /// The token before which something was wrong. Until another one is read, nothing more is reported.
    failed_at: Option<usize>,
}

/// Returns true if an expression may begin with the token.
fn begins(token: &Token) -> bool {
    match token {
        Token::Sign(sign) => ["[", "{", "(", ".", "-", "!"].contains(sign),
        Token::Ident(name) => &**name != "in",
        Token::End => false,
        _ => true,
    }
}

/// Returns true if the token may follow an expression.
fn follows(token: &Token) -> bool {
    match token {
        Token::Sign(sign) => !["[", "{", "(", ".", "!"].contains(sign),
        Token::Ident(name) => &**name == "in",
        Token::End => true,
        _ => false,
    }
}

impl Parser<'_> {
    // The last token is `End` and is never consumed, so that there is always a next one.
    fn peek(&self) -> &Token {
        &self.tokens[self.next].0
    }

    fn at(&self) -> usize {
        self.tokens[self.next].1.start
    }

    fn advance(&mut self) -> (Token, usize) {
        let (token, place) = self.tokens[self.next].clone();
        if token != Token::End {
            self.next += 1;
        }
        (token, place.start)
    }

    fn ahead(&self, count: usize) -> Option<&Token> {
        self.tokens.get(self.next + count).map(|(token, _)| token)
    }

    fn report(&mut self, issue: Issue) {
        if self.failed_at != Some(self.next) {
            self.issues.push(issue);
        }
        self.failed_at = Some(self.next);
    }

    /// Looks at the rest as if an expression had been here, without tokens that cannot follow one.
    fn recover(&mut self) -> Expr {
        let at = self.at();
        while !follows(self.peek()) {
            self.next += 1;
        }
        self.failed_at = Some(self.next);
        Expr::new(at, Node::Literal(Literal::Null))
    }

    /// Handles a missing expression. A token too many is left out.
    fn missing(&mut self) -> Result<Expr, Issue> {
        let expected = if self.begins_arguments() { ARGUMENT } else { EXPRESSION };
        if self.ahead(1).is_some_and(begins) {
            let problem = format!("Syntax error: extraneous input '{}' expecting {expected}", self.found());
            self.report(Issue::new(self.at(), problem));
            self.next += 1;
            return self.nested(Self::unary);
        }
        let issue = self.unexpected(expected);
        self.report(issue);
        Ok(self.recover())
    }

    /// Returns true right behind the bracket that opens a call.
    fn begins_arguments(&self) -> bool {
        let before = |count: usize| self.next.checked_sub(count).and_then(|at| self.tokens.get(at)).map(|(token, _)| token);
        matches!((before(2), before(1)), (Some(Token::Ident(_)), Some(Token::Sign("("))))
    }

    /// An issue for text that begins well and then cannot be what it began as: `count` tokens from here.
    fn no_way_on(&self, count: usize) -> Issue {
        let end = self.tokens.get(self.next + count).or(self.tokens.last()).map_or(0..0, |(_, place)| place.clone());
        let read = self.text.get(self.at()..end.end).unwrap_or_default();
        Issue::new(end.start, format!("Syntax error: no viable alternative at input '{read}'"))
    }

    /// More than one expression.
    fn too_much(&self) -> Issue {
        let sort = if self.ahead(1) == Some(&Token::End) { "extraneous" } else { "mismatched" };
        Issue::new(self.at(), format!("Syntax error: {sort} input '{}' expecting <EOF>", self.found()))
    }

    /// The next token as it is written.
    fn found(&self) -> String {
        match &self.tokens[self.next] {
            (Token::End, _) => "<EOF>".to_owned(),
            (_, place) => self.text.get(place.clone()).unwrap_or_default().replace('\n', "\\n").replace('\r', "\\r").replace('\t', "\\t"),
        }
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
        Issue::new(self.at(), format!("Syntax error: mismatched input '{}' expecting {expected}", self.found()))
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
            if self.sign() == "." {
                let optional = self.ahead(1) == Some(&Token::Sign("?"));
                let count = 1 + usize::from(optional);
                let field = match self.ahead(count) {
                    Some(Token::Ident(name)) if &**name != "in" => name.clone(),
                    _ => return Err(self.no_way_on(count)),
                };
                self.next += count + 1;
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
            Token::Sign(".") if matches!(self.ahead(1), Some(Token::Ident(_))) => {
                self.next += 1;
                self.primary()
            }
            Token::Sign(".") => {
                let issue = self.no_way_on(1);
                self.report(issue);
                Ok(self.recover())
            }
            Token::Sign(_) | Token::End => self.missing(),
        }
    }

    fn identifier(&mut self, name: &Arc<str>, at: usize) -> Result<Expr, Issue> {
        let literal = match &**name {
            "true" => Some(Literal::Bool(true)),
            "false" => Some(Literal::Bool(false)),
            "null" => Some(Literal::Null),
            "in" => return self.missing(),
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
