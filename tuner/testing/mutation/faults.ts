/** What a hand slips into at one place of an expression. */
import { isNode, type Node } from './syntax.ts'

export interface Fault {
  readonly replacement: string
  readonly kind: string
}

const comparisons: Readonly<Record<string, readonly string[]>> = {
  '<': ['<=', '>='],
  '<=': ['<', '>'],
  '>': ['>=', '<='],
  '>=': ['>', '<'],
  '===': ['!=='],
  '!==': ['==='],
}
const arithmetic: Readonly<Record<string, string>> = {
  '+': '-',
  '-': '+',
  '*': '/',
  '/': '*',
  '%': '*',
  '**': '*',
  '&': '|',
  '|': '&',
  '^': '&',
  '<<': '>>',
  '>>': '<<',
  '>>>': '<<',
}
const assignments: Readonly<Record<string, string>> = {
  '+=': '-=',
  '-=': '+=',
  '*=': '/=',
  '/=': '*=',
}
const neighbours: Readonly<Record<string, string>> = {
  'Math.min': 'Math.max',
  'Math.max': 'Math.min',
  'Math.floor': 'Math.ceil',
  'Math.ceil': 'Math.floor',
  'Math.round': 'Math.floor',
}
/** Functions whose arguments have no order. */
const symmetric = new Set(['Math.min', 'Math.max', 'Math.hypot'])
/** Functions of one number that a hand forgets. */
const forgotten = new Set([
  'Math.abs',
  'Math.log',
  'Math.exp',
  'Math.sqrt',
  'Math.log2',
  'Math.log1p',
])
const twins: Readonly<Record<string, string>> = { some: 'every', every: 'some' }
const dropped = new Set(['filter', 'sort', 'toSorted', 'reverse', 'toReversed', 'slice'])
/**
 * Below this a constant guards against rounding and division by zero: twice as much decides
 * nothing.
 */
const leastConstant = 1e-5

const isText = (node: unknown): boolean =>
  isNode(node) &&
  (node.type === 'TemplateLiteral' ||
    (node.type === 'Literal' && typeof node.value === 'string') ||
    (node.type === 'BinaryExpression' &&
      node.operator === '+' &&
      (isText(node.left) || isText(node.right))))

export const isComparison = (node: Node): boolean =>
  node.type === 'BinaryExpression' && String(node.operator) in comparisons

export class Faults {
  /** @param inTable whether a number stands in a table of published figures */
  constructor(
    private readonly source: string,
    private readonly inTable: (node: Node) => boolean,
  ) {}

  readonly text = ({ start, end }: Node): string => this.source.slice(start, end)
  readonly wrap = (node: Node): string => `(${this.text(node)})`

  /** @param negated it is the operand of a minus */
  of(node: Node, negated: boolean): Fault[] {
    const { left, right, operator, argument } = node as unknown as {
      left: Node
      right: Node
      operator: string
      argument: Node
    }
    const between = (to: string) => `${this.wrap(left)} ${to} ${this.wrap(right)}`
    switch (node.type) {
      case 'BinaryExpression': {
        if (operator in comparisons)
          return comparisons[operator]!.map((to) => ({
            kind: 'comparison',
            replacement: between(to),
          }))
        const to = arithmetic[operator]
        if (to === undefined || isText(node)) return []
        return [{ kind: 'arithmetic', replacement: between(to) }]
      }
      case 'LogicalExpression':
        if (operator === '??') return [{ kind: 'default', replacement: this.text(left) }]
        return [
          {
            kind: 'logical',
            replacement: `${this.wrap(left)} ${operator === '&&' ? '||' : '&&'} ${this.wrap(right)}`,
          },
        ]
      case 'UnaryExpression':
        return operator === '-' || operator === '!'
          ? [{ kind: 'sign', replacement: this.text(argument) }]
          : []
      case 'UpdateExpression':
        return [
          {
            kind: 'arithmetic',
            replacement: this.text(node).replace(operator, operator === '++' ? '--' : '++'),
          },
        ]
      case 'AssignmentExpression': {
        const to = assignments[operator]
        return to && !isText(right)
          ? [{ kind: 'arithmetic', replacement: `${this.text(left)} ${to} ${this.wrap(right)}` }]
          : []
      }
      case 'Literal':
        return this.constant(node, negated)
      case 'CallExpression':
        return this.callFaults(node)
      case 'ChainExpression':
        return this.of(node.expression as Node, negated)
      case 'ArrayExpression':
      case 'ObjectExpression':
        return this.listFaults(node)
      default:
        return []
    }
  }

  private constant(node: Node, negated: boolean): Fault[] {
    if (typeof node.value === 'boolean')
      return [{ kind: 'constant', replacement: String(!node.value) }]
    if (typeof node.value !== 'number' || negated || this.inTable(node)) return []
    if (node.value === 0) return [{ kind: 'constant', replacement: '1' }]
    return Math.abs(node.value) < leastConstant
      ? []
      : [{ kind: 'constant', replacement: `${2 * node.value}` }]
  }

  private callFaults(node: Node): Fault[] {
    const callee = node.callee as Node
    const args = node.arguments as Node[]
    const name = this.text(callee)
    const rest = args.map(this.text).join(', ')
    const found: Fault[] = []
    if (name in neighbours)
      found.push({ kind: 'neighbour', replacement: `${neighbours[name]}(${rest})` })
    if (forgotten.has(name)) found.push({ kind: 'forgotten call', replacement: rest })
    if (callee.type === 'MemberExpression' && isNode(callee.property)) {
      const { property } = callee
      const method = this.text(property)
      const object = this.text(callee.object as Node)
      const around = (name: string) =>
        this.source.slice(node.start, property.start) +
        name +
        this.source.slice(property.end, node.end)
      if (method in twins) found.push({ kind: 'neighbour', replacement: around(twins[method]!) })
      if (dropped.has(method)) found.push({ kind: 'dropped call', replacement: object })
    }
    const [first, second] = args
    const plain = (arg: Node | undefined) =>
      arg && (arg.type === 'Identifier' || arg.type === 'MemberExpression') && this.text(arg)
    if (
      plain(first) &&
      plain(second) &&
      this.text(first!) !== this.text(second!) &&
      !symmetric.has(name)
    ) {
      const swapped = [second!, first!, ...args.slice(2)].map(this.text).join(', ')
      found.push({ kind: 'neighbour', replacement: `${name}(${swapped})` })
    }
    return found
  }

  private listFaults(node: Node): Fault[] {
    const parts = ((node.elements ?? node.properties) as (Node | null)[]).filter(isNode)
    const [open, close] = node.type === 'ArrayExpression' ? ['[', ']'] : ['{', '}']
    const found: Fault[] = parts
      .filter((part) => part.type === 'SpreadElement')
      .map((spread) => ({
        kind: 'dropped spread',
        replacement: `${open} ${parts
          .filter((part) => part !== spread)
          .map(this.text)
          .join(', ')} ${close}`,
      }))
    const [first, second] = parts
    const swaps =
      node.type === 'ArrayExpression' &&
      parts.length === 2 &&
      !parts.some((p) => p.type === 'SpreadElement' || isText(p))
    if (swaps && this.text(first!) !== this.text(second!))
      found.push({
        kind: 'neighbour',
        replacement: `[${this.text(second!)}, ${this.text(first!)}]`,
      })
    return found
  }
}
