/**
 * Parses conditions of a search space, such as
 * `batchSize <= queueSize and not (gpu == 'T4' and precision == 'fp8')`. The grammar:
 *
 *     or     = and { ("or" | "||") and }
 *     and    = not { ("and" | "&&") not }
 *     not    = ("not" | "!") not | chain
 *     chain  = sum { ("<" | "<=" | ">" | ">=" | "==" | "=" | "!=") sum }
 *            | sum ["not"] "in" "[" sum { "," sum } "]"
 *     sum    = term { ("+" | "-") term }
 *     term   = unary { ("*" | "/" | "%") unary }
 *     unary  = "-" unary | number | 'text' | name | `name with special characters` | "(" or ")"
 *
 * Types are checked when a condition is parsed, so `holds` never throws. No part of a condition is
 * evaluated as JavaScript.
 */
import type { Condition, Configuration } from '../../../search/types.ts'
import { suggestNames } from '../../../trials/near-names.ts'

/** Name → 'number', or the values of a categorical parameter. */
export type ConditionNames = ReadonlyMap<string, 'number' | readonly string[]>

export class ConditionError extends Error {
  constructor(
    message: string,
    /** Position of the fault in the condition, in characters from 0. */
    readonly offset: number,
    readonly hint: string,
    /** The condition names an unknown parameter. */
    readonly kind?: 'no-parameter',
  ) {
    super(message)
    this.name = 'ConditionError'
  }
}

type Type = 'boolean' | 'number' | 'string'
type Value = boolean | number | string
interface Expression {
  readonly type: Type
  /** Position of its first character in the condition, from 0. */
  readonly offset: number
  readonly evaluate: (configuration: Configuration) => Value
}
interface Token {
  readonly kind: 'number' | 'string' | 'name' | 'operator' | 'end'
  readonly text: string
  readonly offset: number
}

const tokenPattern =
  /\s*(?:(\d+\.?\d*(?:e[+-]?\d+)?|\.\d+)|'([^']*)'|"([^"]*)"|`([^`]+)`|([A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*)|(<=|>=|==|!=|&&|\|\||[<>=!()+\-*/%,[\]]))/iy

/** Longer conditions could nest deeper than the call stack allows. */
const maxCharacters = 10_000

function readTokens(text: string): Token[] {
  const tokens: Token[] = []
  tokenPattern.lastIndex = 0
  let end = text.trimEnd().length
  if (end > maxCharacters)
    throw new ConditionError(
      `the condition has ${end} characters`,
      0,
      `use at most ${maxCharacters}; write several conditions instead, which must all hold`,
    )
  if (end === 0)
    throw new ConditionError(
      'the condition is empty',
      0,
      "write, for example, 'batchSize <= queueSize'",
    )
  let offset = 0
  while (offset < end) {
    tokenPattern.lastIndex = offset
    const match = tokenPattern.exec(text)
    const start = offset + (/^\s*/.exec(text.slice(offset))?.[0].length ?? 0)
    if (!match) {
      const quote = /['"`]/.test(text[start]!)
      throw new ConditionError(
        quote ? 'a quote is not closed' : `unexpected '${text[start]}'`,
        start,
        '',
      )
    }
    const [, number, single, double, quotedName, name, operator] = match
    if (number !== undefined) tokens.push({ kind: 'number', text: number, offset: start })
    else if (single !== undefined || double !== undefined)
      tokens.push({ kind: 'string', text: single ?? double ?? '', offset: start })
    else if (quotedName !== undefined)
      tokens.push({ kind: 'name', text: quotedName, offset: start })
    else if (name !== undefined)
      tokens.push({
        kind: /^(and|or|not|in)$/i.test(name) ? 'operator' : 'name',
        text: name,
        offset: start,
      })
    else tokens.push({ kind: 'operator', text: operator!, offset: start })
    offset = tokenPattern.lastIndex
  }
  end = text.length
  return [...tokens, { kind: 'end', text: '', offset: end }]
}

/**
 * Parses a condition over the named parameters.
 * @throws ConditionError with the position of the fault: a name that is no parameter, a number
 * compared with a text, or a syntax error
 */
export function parseCondition(text: string, names: ConditionNames): Condition {
  const parser = new ConditionParser(readTokens(text), names)
  const expression = parser.parseWhole()
  return {
    text: text.trim(),
    holds: (configuration) => expression.evaluate(configuration) === true,
  }
}

const comparisons: Record<string, (a: Value, b: Value) => boolean> = {
  '<': (a, b) => a < b,
  '<=': (a, b) => a <= b,
  '>': (a, b) => a > b,
  '>=': (a, b) => a >= b,
  '==': (a, b) => a === b,
  '=': (a, b) => a === b,
  '!=': (a, b) => a !== b,
}
const operations: Record<string, (a: number, b: number) => number> = {
  '+': (a, b) => a + b,
  '-': (a, b) => a - b,
  '*': (a, b) => a * b,
  '/': (a, b) => a / b,
  '%': (a, b) => a % b,
}
/** Limit of nested parentheses, minus signs and `not`, because each nesting uses the call stack. */
const maxDepth = 100

class ConditionParser {
  private position = 0
  private depth = 0
  constructor(
    private readonly tokens: readonly Token[],
    private readonly names: ConditionNames,
  ) {}

  parseWhole(): Expression {
    const expression = this.parseOr()
    const token = this.peek()
    if (token.kind !== 'end')
      throw new ConditionError(
        `unexpected '${token.text}'`,
        token.offset,
        "join conditions with 'and' or 'or'",
      )
    return this.requireType(expression, 'boolean', "write a comparison, such as 'batchSize <= 32'")
  }

  private peek = () => this.tokens[this.position]!
  private takeOperator(...operators: string[]): Token | undefined {
    const token = this.peek()
    if (token.kind !== 'operator' || !operators.includes(token.text.toLowerCase())) return undefined
    this.position++
    return token
  }
  private requireType(expression: Expression, type: Type, hint: string): Expression {
    if (expression.type === type) return expression
    const typeNames = { boolean: 'a comparison', number: 'a number', string: 'a text' }
    throw new ConditionError(
      `expected ${typeNames[type]}, found ${typeNames[expression.type]}`,
      expression.offset,
      hint,
    )
  }

  private parseOr = (): Expression =>
    this.parseJoined(this.parseAnd, ['or', '||'], (a, b) => a || b)
  private parseAnd = (): Expression =>
    this.parseJoined(this.parseNot, ['and', '&&'], (a, b) => a && b)
  private parseJoined(
    part: () => Expression,
    operators: string[],
    join: (a: Value, b: Value) => Value,
  ): Expression {
    let left = part()
    for (
      let operator = this.takeOperator(...operators);
      operator;
      operator = this.takeOperator(...operators)
    ) {
      const hint = `both sides of '${operator.text}' must be comparisons`
      const a = this.requireType(left, 'boolean', hint)
      const b = this.requireType(part(), 'boolean', hint)
      left = {
        type: 'boolean',
        offset: a.offset,
        evaluate: (c) => join(a.evaluate(c), b.evaluate(c)),
      }
    }
    return left
  }
  private parseNot = (): Expression => {
    const operator = this.takeOperator('not', '!')
    if (!operator) return this.parseComparisons()
    const inner = this.parseNested(operator.offset, () =>
      this.requireType(
        this.parseNot(),
        'boolean',
        "write 'not' before a comparison in parentheses",
      ),
    )
    return { type: 'boolean', offset: operator.offset, evaluate: (c) => !inner.evaluate(c) }
  }

  private parseComparisons(): Expression {
    const first = this.parseSum()
    const negated = this.peek().text.toLowerCase() === 'not' ? this.takeOperator('not') : undefined
    if (this.takeOperator('in')) return this.parseMembership(first, negated !== undefined)
    if (negated)
      throw new ConditionError(
        "'not' without 'in'",
        negated.offset,
        "write `gpu not in ['T4', 'L4']` or `not (...)`",
      )
    const links: { left: Expression; holds: (a: Value, b: Value) => boolean; right: Expression }[] =
      []
    let left = first
    for (
      let operator = this.takeOperator(...Object.keys(comparisons));
      operator;
      operator = this.takeOperator(...Object.keys(comparisons))
    ) {
      const right = this.parseSum()
      this.checkComparable(left, right, operator)
      links.push({ left, holds: comparisons[operator.text]!, right })
      left = right
    }
    if (links.length === 0) return first
    return {
      type: 'boolean',
      offset: first.offset,
      evaluate: (c) =>
        links.every((link) => link.holds(link.left.evaluate(c), link.right.evaluate(c))),
    }
  }
  private checkComparable(left: Expression, right: Expression, operator: Token): void {
    if (left.type !== right.type)
      throw new ConditionError(
        `'${operator.text}' compares a ${left.type} with a ${right.type}`,
        operator.offset,
        '',
      )
    if (left.type !== 'number' && !['==', '=', '!='].includes(operator.text))
      throw new ConditionError(
        `'${operator.text}' needs numbers`,
        operator.offset,
        'compare texts with == or !=',
      )
  }
  private parseMembership(first: Expression, negated: boolean): Expression {
    const open = this.expectOperator('[', "write `gpu in ['T4', 'L4']`")
    const members: Expression[] = []
    do {
      const member = this.parseSum()
      this.checkComparable(first, member, { ...open, text: '==' })
      members.push(member)
    } while (this.takeOperator(','))
    this.expectOperator(']', 'close the list')
    return {
      type: 'boolean',
      offset: first.offset,
      evaluate: (c) =>
        members.some((member) => member.evaluate(c) === first.evaluate(c)) !== negated,
    }
  }

  private parseSum = (): Expression => this.parseOperations(this.parseTerm, ['+', '-'])
  private parseTerm = (): Expression => this.parseOperations(this.parseUnary, ['*', '/', '%'])
  private parseOperations(part: () => Expression, operators: string[]): Expression {
    let left = part()
    for (
      let operator = this.takeOperator(...operators);
      operator;
      operator = this.takeOperator(...operators)
    ) {
      const operation = operations[operator.text]!
      const a = this.requireType(left, 'number', `'${operator.text}' needs numbers`)
      const b = this.requireType(part(), 'number', `'${operator.text}' needs numbers`)
      left = {
        type: 'number',
        offset: a.offset,
        evaluate: (c) => operation(a.evaluate(c) as number, b.evaluate(c) as number),
      }
    }
    return left
  }

  private parseUnary = (): Expression => {
    const minus = this.takeOperator('-')
    if (minus) {
      const inner = this.parseNested(minus.offset, () =>
        this.requireType(this.parseUnary(), 'number', "'-' needs a number"),
      )
      return {
        type: 'number',
        offset: minus.offset,
        evaluate: (c) => -(inner.evaluate(c) as number),
      }
    }
    const open = this.takeOperator('(')
    if (open) {
      const inner = this.parseNested(open.offset, () => this.parseOr())
      this.expectOperator(')', `close the parenthesis of column ${open.offset + 1}`)
      return inner
    }
    const token = this.peek()
    this.position++
    if (token.kind === 'number')
      return { type: 'number', offset: token.offset, evaluate: () => Number(token.text) }
    if (token.kind === 'string')
      return { type: 'string', offset: token.offset, evaluate: () => token.text }
    if (token.kind === 'name') return this.parseName(token)
    throw new ConditionError(
      token.kind === 'end' ? 'the condition is incomplete' : `unexpected '${token.text}'`,
      token.offset,
      'write a number, a name or a text here',
    )
  }
  private parseName(token: Token): Expression {
    const values = this.names.get(token.text)
    if (values)
      return {
        type: values === 'number' ? 'number' : 'string',
        offset: token.offset,
        evaluate: (c) => c[token.text]!,
      }
    const isValue = [...this.names.values()].some(
      (values) => values !== 'number' && values.includes(token.text),
    )
    if (isValue) return { type: 'string', offset: token.offset, evaluate: () => token.text }
    throw new ConditionError(
      `'${token.text}' is not a parameter`,
      token.offset,
      suggestNames(token.text, [...this.names.keys()]),
      'no-parameter',
    )
  }

  private expectOperator(operator: string, hint: string): Token {
    const token = this.takeOperator(operator)
    if (token) return token
    const found = this.peek()
    throw new ConditionError(
      found.kind === 'end'
        ? `'${operator}' is missing`
        : `expected '${operator}', found '${found.text}'`,
      found.offset,
      hint,
    )
  }
  private parseNested<T>(offset: number, inner: () => T): T {
    if (++this.depth > maxDepth)
      throw new ConditionError(`nested more than ${maxDepth} deep`, offset, 'use fewer parentheses')
    const result = inner()
    this.depth--
    return result
  }
}
