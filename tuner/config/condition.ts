/**
 * Conditions of a search space: `batchSize <= queueSize and not (gpu == 'T4' and precision ==
 * 'fp8')`.
 *
 *     or     = and { ("or" | "||") and }
 *     and    = not { ("and" | "&&") not }
 *     not    = ("not" | "!") not | chain
 *     chain = sum { ("<" | "<=" | ">" | ">=" | "==" | "=" | "!=") sum } | sum ["not"] "in" "[" sum
 *     { "," sum } "]" sum = term { ("+" | "-") term } term = unary { ("*" | "/" | "%") unary }
 *     unary = "-" unary | number | 'text' | name | `name with odd signs` | "(" or ")"
 *
 * Types are checked when a condition is read, so `holds` never throws. Nothing is ever evaluated as
 * JavaScript.
 */
import type { Condition, Configuration } from '../../search/types.ts'
import { suggestNames } from '../../trials/near-names.ts'

/** Name → 'number', or the values of a categorical parameter. */
export type ConditionNames = ReadonlyMap<string, 'number' | readonly string[]>

export class ConditionError extends Error {
  constructor(
    message: string,
    /** Where in the text, from 0. */
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
  /** Where it begins in the condition. */
  readonly at: number
  readonly evaluate: (configuration: Configuration) => Value
}
interface Token {
  readonly kind: 'number' | 'string' | 'name' | 'sign' | 'end'
  readonly text: string
  readonly at: number
}

const tokenPattern =
  /\s*(?:(\d+\.?\d*(?:e[+-]?\d+)?|\.\d+)|'([^']*)'|"([^"]*)"|`([^`]+)`|([A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*)|(<=|>=|==|!=|&&|\|\||[<>=!()+\-*/%,[\]]))/iy

/** Longer conditions could nest deeper than the call stack allows. */
const maxCharacters = 10_000

function readTokens(text: string): Token[] {
  const found: Token[] = []
  tokenPattern.lastIndex = 0
  let end = text.trimEnd().length
  if (end > maxCharacters)
    throw new ConditionError(
      `a condition of ${end} characters`,
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
    const [, number, single, double, quotedName, name, sign] = match
    if (number !== undefined) found.push({ kind: 'number', text: number, at: start })
    else if (single !== undefined || double !== undefined)
      found.push({ kind: 'string', text: single ?? double ?? '', at: start })
    else if (quotedName !== undefined) found.push({ kind: 'name', text: quotedName, at: start })
    else if (name !== undefined)
      found.push({ kind: /^(and|or|not|in)$/i.test(name) ? 'sign' : 'name', text: name, at: start })
    else found.push({ kind: 'sign', text: sign!, at: start })
    offset = tokenPattern.lastIndex
  }
  end = text.length
  return [...found, { kind: 'end', text: '', at: end }]
}

/**
 * Reads a condition over the named parameters.
 * @throws ConditionError with the offset of what is wrong: a name that is no parameter, a number
 * compared with a text, a syntax error.
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
/** Parentheses, signs and `not` inside each other, each of which takes some of the call stack. */
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
        token.at,
        "join conditions with 'and' or 'or'",
      )
    return this.need(expression, 'boolean', "write a comparison, such as 'batchSize <= 32'")
  }

  private peek = () => this.tokens[this.position]!
  private take(...signs: string[]): Token | undefined {
    const token = this.peek()
    if (token.kind !== 'sign' || !signs.includes(token.text.toLowerCase())) return undefined
    this.position++
    return token
  }
  private need(expression: Expression, type: Type, hint: string): Expression {
    if (expression.type === type) return expression
    const words = { boolean: 'a comparison', number: 'a number', string: 'a text' }
    throw new ConditionError(
      `expected ${words[type]}, found ${words[expression.type]}`,
      expression.at,
      hint,
    )
  }

  private parseOr = (): Expression =>
    this.parseJoined(this.parseAnd, ['or', '||'], (a, b) => a || b)
  private parseAnd = (): Expression =>
    this.parseJoined(this.parseNot, ['and', '&&'], (a, b) => a && b)
  private parseJoined(
    part: () => Expression,
    signs: string[],
    join: (a: Value, b: Value) => Value,
  ): Expression {
    let left = part()
    for (let sign = this.take(...signs); sign; sign = this.take(...signs)) {
      const hint = `both sides of '${sign.text}' must be comparisons`
      const a = this.need(left, 'boolean', hint)
      const b = this.need(part(), 'boolean', hint)
      left = { type: 'boolean', at: a.at, evaluate: (c) => join(a.evaluate(c), b.evaluate(c)) }
    }
    return left
  }
  private parseNot = (): Expression => {
    const sign = this.take('not', '!')
    if (!sign) return this.parseComparisons()
    const inner = this.parseNested(sign.at, () =>
      this.need(this.parseNot(), 'boolean', "write 'not' before a comparison in parentheses"),
    )
    return { type: 'boolean', at: sign.at, evaluate: (c) => !inner.evaluate(c) }
  }

  private parseComparisons(): Expression {
    const first = this.parseSum()
    const negated = this.peek().text.toLowerCase() === 'not' ? this.take('not') : undefined
    if (this.take('in')) return this.parseMembership(first, negated !== undefined)
    if (negated)
      throw new ConditionError(
        "'not' without 'in'",
        negated.at,
        "write `gpu not in ['T4', 'L4']` or `not (...)`",
      )
    const links: { left: Expression; holds: (a: Value, b: Value) => boolean; right: Expression }[] =
      []
    let left = first
    for (
      let sign = this.take(...Object.keys(comparisons));
      sign;
      sign = this.take(...Object.keys(comparisons))
    ) {
      const right = this.parseSum()
      this.checkComparable(left, right, sign)
      links.push({ left, holds: comparisons[sign.text]!, right })
      left = right
    }
    if (links.length === 0) return first
    return {
      type: 'boolean',
      at: first.at,
      evaluate: (c) =>
        links.every((link) => link.holds(link.left.evaluate(c), link.right.evaluate(c))),
    }
  }
  private checkComparable(left: Expression, right: Expression, sign: Token): void {
    if (left.type !== right.type)
      throw new ConditionError(
        `'${sign.text}' compares a ${left.type} with a ${right.type}`,
        sign.at,
        '',
      )
    if (left.type !== 'number' && !['==', '=', '!='].includes(sign.text))
      throw new ConditionError(
        `'${sign.text}' needs numbers`,
        sign.at,
        'compare texts with == or !=',
      )
  }
  private parseMembership(first: Expression, negated: boolean): Expression {
    const open = this.expect('[', "write `gpu in ['T4', 'L4']`")
    const members: Expression[] = []
    do {
      const member = this.parseSum()
      this.checkComparable(first, member, { ...open, text: '==' })
      members.push(member)
    } while (this.take(','))
    this.expect(']', 'close the list')
    return {
      type: 'boolean',
      at: first.at,
      evaluate: (c) =>
        members.some((member) => member.evaluate(c) === first.evaluate(c)) !== negated,
    }
  }

  private parseSum = (): Expression => this.parseOperations(this.parseTerm, ['+', '-'])
  private parseTerm = (): Expression => this.parseOperations(this.parseUnary, ['*', '/', '%'])
  private parseOperations(part: () => Expression, signs: string[]): Expression {
    let left = part()
    for (let sign = this.take(...signs); sign; sign = this.take(...signs)) {
      const operation = operations[sign.text]!
      const a = this.need(left, 'number', `'${sign.text}' needs numbers`)
      const b = this.need(part(), 'number', `'${sign.text}' needs numbers`)
      left = {
        type: 'number',
        at: a.at,
        evaluate: (c) => operation(a.evaluate(c) as number, b.evaluate(c) as number),
      }
    }
    return left
  }

  private parseUnary = (): Expression => {
    const minus = this.take('-')
    if (minus) {
      const inner = this.parseNested(minus.at, () =>
        this.need(this.parseUnary(), 'number', "'-' needs a number"),
      )
      return { type: 'number', at: minus.at, evaluate: (c) => -(inner.evaluate(c) as number) }
    }
    const open = this.take('(')
    if (open) {
      const inner = this.parseNested(open.at, () => this.parseOr())
      this.expect(')', `close the parenthesis of column ${open.at + 1}`)
      return inner
    }
    const token = this.peek()
    this.position++
    if (token.kind === 'number')
      return { type: 'number', at: token.at, evaluate: () => Number(token.text) }
    if (token.kind === 'string') return { type: 'string', at: token.at, evaluate: () => token.text }
    if (token.kind === 'name') return this.parseName(token)
    throw new ConditionError(
      token.kind === 'end' ? 'the condition is incomplete' : `unexpected '${token.text}'`,
      token.at,
      'write a number, a name or a text here',
    )
  }
  private parseName(token: Token): Expression {
    const values = this.names.get(token.text)
    if (values)
      return {
        type: values === 'number' ? 'number' : 'string',
        at: token.at,
        evaluate: (c) => c[token.text]!,
      }
    const isValue = [...this.names.values()].some(
      (values) => values !== 'number' && values.includes(token.text),
    )
    if (isValue) return { type: 'string', at: token.at, evaluate: () => token.text }
    throw new ConditionError(
      `'${token.text}' is not a parameter`,
      token.at,
      suggestNames(token.text, [...this.names.keys()]),
      'no-parameter',
    )
  }

  private expect(sign: string, hint: string): Token {
    const token = this.take(sign)
    if (token) return token
    const found = this.peek()
    throw new ConditionError(
      found.kind === 'end' ? `'${sign}' is missing` : `expected '${sign}', found '${found.text}'`,
      found.at,
      hint,
    )
  }
  private parseNested<T>(at: number, inner: () => T): T {
    if (++this.depth > maxDepth)
      throw new ConditionError(`nested more than ${maxDepth} deep`, at, 'use fewer parentheses')
    const result = inner()
    this.depth--
    return result
  }
}
