/** The faults that are put into a source, one at a time: what a hand slips into when it writes a decision. */
import { parseAst } from 'vitest/node'

export interface Mutant {
  /** The expression that is replaced, in UTF-16 units of the source. */
  readonly start: number
  readonly end: number
  readonly line: number
  readonly original: string
  readonly replacement: string
  readonly kind: string
  /** Of a constant of the file: the places that read it, and its value there. It is computed once, before any switch could be thrown. */
  readonly read?: { readonly at: readonly Place[]; readonly value: string }
}

export interface Place {
  readonly start: number
  readonly end: number
}

interface Node {
  readonly type: string
  readonly start: number
  readonly end: number
  readonly [key: string]: unknown
}

type Fault = Pick<Mutant, 'replacement' | 'kind'>

const isNode = (value: unknown): value is Node =>
  typeof value === 'object' && value !== null && typeof (value as { type?: unknown }).type === 'string'

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
const assignments: Readonly<Record<string, string>> = { '+=': '-=', '-=': '+=', '*=': '/=', '/=': '*=' }
const neighbours: Readonly<Record<string, string>> = {
  'Math.min': 'Math.max',
  'Math.max': 'Math.min',
  'Math.floor': 'Math.ceil',
  'Math.ceil': 'Math.floor',
  'Math.round': 'Math.floor',
}
/** Functions of one number that a hand forgets. */
const forgotten = new Set(['Math.abs', 'Math.log', 'Math.exp', 'Math.sqrt', 'Math.log2', 'Math.log1p'])
const twins: Readonly<Record<string, string>> = { some: 'every', every: 'some' }
const dropped = new Set(['filter', 'sort', 'toSorted', 'reverse', 'toReversed', 'slice'])
/** Below this a constant guards against rounding and division by zero: twice as much decides nothing. */
const leastConstant = 1e-5
/** So many numbers in one constant of a file are a table of published figures: to be compared with its source, and no decision. */
const leastTable = 8

const isText = (node: unknown): boolean =>
  isNode(node) &&
  (node.type === 'TemplateLiteral' ||
    (node.type === 'Literal' && typeof node.value === 'string') ||
    (node.type === 'BinaryExpression' && node.operator === '+' && (isText(node.left) || isText(node.right))))

const isComparison = (node: Node): boolean => node.type === 'BinaryExpression' && String(node.operator) in comparisons

export interface Analysis {
  /** In the order of the text, the outer before the inner. */
  readonly mutants: readonly Mutant[]
  /** Where expressions begin that are statements in a block: after a line without a semicolon, perhaps. */
  readonly statements: ReadonlySet<number>
}

/** Every mutant of a TypeScript source. Texts, types, errors thrown and loops' steps are left alone. */
export function analyse(source: string): Analysis {
  const mutants: Mutant[] = []
  const statements = new Set<number>()
  const text = (node: Node) => source.slice(node.start, node.end)
  const lineOf = (at: number) => source.slice(0, at).split('\n').length
  const add = (node: Node, found: readonly Fault[]) => {
    for (const { replacement, kind } of found)
      mutants.push({ start: node.start, end: node.end, line: lineOf(node.start), original: text(node), replacement, kind })
  }
  const wrap = (node: Node) => `(${text(node)})`

  const tables: Place[] = []
  const constants = new Map<string, { readonly init: Node; readonly at: Place[] }>()

  /** `spine`: a part of an optional chain, which cannot be cut out of it; `negated`: the operand of a minus. */
  function visit(node: Node, { spine = false, negated = false }: { spine?: boolean; negated?: boolean } = {}): void {
    if (node.type.startsWith('TS')) {
      // `x as T`, `x!`, `x satisfies T`: the value within; everything else is a type.
      if (isNode(node.expression) && !node.type.includes('Heritage')) visit(node.expression, { spine, negated })
      return
    }
    if (node.type === 'ThrowStatement' || node.type === 'TemplateLiteral' || node.type.startsWith('Import')) return
    if (node.type === 'NewExpression' && /Error$/.test(text(node.callee as Node))) return
    if (node.type === 'Identifier' && !spine) constants.get(text(node))?.at.push(node)
    if (!spine) add(node, faultsOf(node, negated))
    for (const child of childrenOf(node)) visit(child.node, child)
  }

  function faultsOf(node: Node, negated: boolean): Fault[] {
    const { left, right, operator, argument } = node as unknown as { left: Node; right: Node; operator: string; argument: Node }
    const between = (to: string) => `${wrap(left)} ${to} ${wrap(right)}`
    switch (node.type) {
      case 'BinaryExpression': {
        if (operator in comparisons) return comparisons[operator]!.map((to) => ({ kind: 'comparison', replacement: between(to) }))
        const to = arithmetic[operator]
        if (to === undefined || isText(node)) return []
        return [{ kind: 'arithmetic', replacement: between(to) }]
      }
      case 'LogicalExpression':
        if (operator === '??') return [{ kind: 'default', replacement: text(left) }]
        return [{ kind: 'logical', replacement: `${wrap(left)} ${operator === '&&' ? '||' : '&&'} ${wrap(right)}` }]
      case 'UnaryExpression':
        return operator === '-' || operator === '!' ? [{ kind: 'sign', replacement: text(argument) }] : []
      case 'UpdateExpression':
        return [{ kind: 'arithmetic', replacement: text(node).replace(operator, operator === '++' ? '--' : '++') }]
      case 'AssignmentExpression': {
        const to = assignments[operator]
        return to && !isText(right) ? [{ kind: 'arithmetic', replacement: `${text(left)} ${to} ${wrap(right)}` }] : []
      }
      case 'Literal':
        return constant(node, negated)
      case 'CallExpression':
        return callFaults(node)
      case 'ChainExpression':
        return faultsOf(node.expression as Node, negated)
      case 'ArrayExpression':
      case 'ObjectExpression':
        return listFaults(node)
      default:
        return []
    }
  }

  function constant(node: Node, negated: boolean): Fault[] {
    if (typeof node.value === 'boolean') return [{ kind: 'constant', replacement: String(!node.value) }]
    if (typeof node.value !== 'number' || negated || tables.some(({ start, end }) => start <= node.start && node.end <= end)) return []
    if (node.value === 0) return [{ kind: 'constant', replacement: '1' }]
    return Math.abs(node.value) < leastConstant ? [] : [{ kind: 'constant', replacement: `${2 * node.value}` }]
  }

  function callFaults(node: Node): Fault[] {
    const callee = node.callee as Node
    const args = node.arguments as Node[]
    const name = text(callee)
    const rest = args.map(text).join(', ')
    const found: Fault[] = []
    if (name in neighbours) found.push({ kind: 'neighbour', replacement: `${neighbours[name]}(${rest})` })
    if (forgotten.has(name)) found.push({ kind: 'forgotten call', replacement: rest })
    if (callee.type === 'MemberExpression' && isNode(callee.property)) {
      const { property } = callee
      const method = text(property)
      const object = text(callee.object as Node)
      const around = (name: string) => source.slice(node.start, property.start) + name + source.slice(property.end, node.end)
      if (method in twins) found.push({ kind: 'neighbour', replacement: around(twins[method]!) })
      if (dropped.has(method)) found.push({ kind: 'dropped call', replacement: object })
    }
    const [first, second] = args
    const plain = (arg: Node | undefined) => arg && (arg.type === 'Identifier' || arg.type === 'MemberExpression') && text(arg)
    if (plain(first) && plain(second) && text(first!) !== text(second!) && !name.startsWith('Math.m')) {
      const swapped = [second!, first!, ...args.slice(2)].map(text).join(', ')
      found.push({ kind: 'neighbour', replacement: `${name}(${swapped})` })
    }
    return found
  }

  function listFaults(node: Node): Fault[] {
    const parts = ((node.elements ?? node.properties) as (Node | null)[]).filter(isNode)
    const [open, close] = node.type === 'ArrayExpression' ? ['[', ']'] : ['{', '}']
    const found: Fault[] = parts
      .filter((part) => part.type === 'SpreadElement')
      .map((spread) => ({
        kind: 'dropped spread',
        replacement: `${open} ${parts
          .filter((part) => part !== spread)
          .map(text)
          .join(', ')} ${close}`,
      }))
    const [first, second] = parts
    const swaps = node.type === 'ArrayExpression' && parts.length === 2 && !parts.some((p) => p.type === 'SpreadElement' || isText(p))
    if (swaps && text(first!) !== text(second!)) found.push({ kind: 'neighbour', replacement: `[${text(second!)}, ${text(first!)}]` })
    return found
  }

  /** A condition that has no fault of its own is negated whole. */
  function negation(test: Node): void {
    const bare = test.type === 'UnaryExpression' || test.type === 'LogicalExpression' || isComparison(test)
    if (!bare) add(test, [{ kind: 'condition', replacement: `!${wrap(test)}` }])
  }

  interface Child {
    readonly node: Node
    readonly spine?: boolean
    readonly negated?: boolean
  }

  function childrenOf(node: Node): Child[] {
    const of = (...values: unknown[]): Child[] =>
      values
        .flat()
        .filter(isNode)
        .map((child) => ({ node: child }))
    const chained = (child: unknown): Child[] => of(child).map((c) => ({ ...c, spine: true }))
    switch (node.type) {
      case 'ChainExpression':
        return chained(node.expression)
      case 'MemberExpression':
        return [...(partOfChain.has(node) ? chained(node.object) : of(node.object)), ...(node.computed ? of(node.property) : [])]
      case 'CallExpression':
      case 'NewExpression':
        // A callee is replaced with its call; what it stands on is looked into.
        return [...chainedCallee(node), ...of(node.arguments)]
      case 'UnaryExpression':
        return of(node.argument).map((c) => ({ ...c, negated: node.operator === '-' }))
      case 'UpdateExpression':
        return []
      case 'ForStatement':
        return of(node.init, node.test, node.body)
      case 'ForOfStatement':
      case 'ForInStatement':
        return of(node.right, node.body)
      case 'IfStatement':
        negation(node.test as Node)
        return of(node.test, node.consequent, node.alternate)
      case 'ConditionalExpression':
        negation(node.test as Node)
        return of(node.test, node.consequent, node.alternate)
      case 'AssignmentExpression':
        return [...assigned(node.left as Node), ...of(node.right)]
      case 'AssignmentPattern':
        return [...assigned(node.left as Node), ...of(node.right)]
      case 'Property':
        return node.shorthand && (node.value as Node).type === 'Identifier' ? [] : of(node.value)
      case 'PropertyDefinition':
        return of(node.value)
      case 'VariableDeclarator':
        return [...assigned(node.id as Node), ...of(node.init)]
      case 'Program':
      case 'BlockStatement':
      case 'SwitchCase': {
        const body = of(node.test, node.body, node.consequent)
        for (const { node: statement } of body) if (statement.type === 'ExpressionStatement') statements.add(statement.start)
        return body
      }
      case 'ExpressionStatement':
        removal(node.expression as Node)
        return of(node.expression)
      case 'TaggedTemplateExpression':
      case 'MetaProperty':
        return []
      default:
        return Object.entries(node)
          .filter(([key]) => !['typeAnnotation', 'returnType', 'typeParameters', 'typeArguments', 'key', 'label'].includes(key))
          .flatMap(([, value]) => of(value))
    }
  }

  /** What is left of an assignment is a place; only an index in it is a value. */
  function assigned(place: Node): Child[] {
    if (place.type === 'MemberExpression') return place.computed && isNode(place.property) ? [{ node: place.property }] : []
    return place.type === 'Identifier' ? [] : childrenOf(place)
  }

  function chainedCallee(node: Node): Child[] {
    const callee = node.callee as Node
    if (partOfChain.has(node)) return [{ node: callee, spine: true }]
    return callee.type === 'MemberExpression' ? childrenOf(callee) : callee.type === 'Identifier' ? [] : [{ node: callee }]
  }

  function removal(expression: Node): void {
    if (isNode(expression.callee) && expression.callee.type === 'Super') return
    if (expression.type === 'AssignmentExpression' || expression.type === 'CallExpression' || expression.type === 'AwaitExpression')
      add(expression, [{ kind: 'dropped statement', replacement: 'undefined' }])
  }

  /** Members and calls between an optional chain's end and its beginning. */
  const partOfChain = new Set<Node>()
  function markChains(node: Node): void {
    if (node.type === 'ChainExpression') {
      let at: unknown = node.expression
      while (isNode(at)) {
        partOfChain.add(at)
        at = at.object ?? at.callee ?? (at.type === 'TSNonNullExpression' ? at.expression : undefined)
      }
    }
    for (const value of Object.values(node)) for (const child of [value].flat()) if (isNode(child)) markChains(child)
  }

  /** `const LIMIT = 2 * 60`: numbers, operators and functions of Math. */
  const isConstant = (node: Node): boolean => {
    if (['Literal', 'Identifier'].includes(node.type)) return true
    if (node.type === 'CallExpression') return text(node.callee as Node).startsWith('Math.') && (node.arguments as Node[]).every(isConstant)
    if (node.type === 'MemberExpression') return text(node).startsWith('Math.')
    return /^(Unary|Binary)Expression$/.test(node.type) && [node.left, node.right, node.argument].filter(isNode).every(isConstant)
  }

  function noteConstants(statements: readonly Node[]): void {
    for (const statement of statements) {
      const declared = isNode(statement.declaration) ? statement.declaration : statement
      if (declared.type !== 'VariableDeclaration' || declared.kind !== 'const') continue
      for (const { id, init } of declared.declarations as { id: Node; init: Node }[]) {
        if (id.type === 'Identifier' && isConstant(init)) constants.set(String(id.name), { init, at: [] })
        if (numbersIn(init) >= leastTable) tables.push(init)
      }
    }
  }

  const numbersIn = (node: Node): number =>
    typeof node.value === 'number'
      ? 1
      : node.type.endsWith('FunctionExpression')
        ? 0
        : Object.values(node)
            .flat()
            .filter(isNode)
            .reduce((sum, child) => sum + numbersIn(child), 0)

  function readWhereUsed(mutant: Mutant): Mutant {
    for (const { init, at } of constants.values()) {
      if (mutant.start < init.start || mutant.end > init.end) continue
      const value = `${source.slice(init.start, mutant.start)}(${mutant.replacement})${source.slice(mutant.end, init.end)}`
      return { ...mutant, read: { at, value } }
    }
    return mutant
  }

  const program = parseAst(source, { lang: 'ts' }) as unknown as Node
  markChains(program)
  noteConstants(program.body as Node[])
  visit(program)
  return { mutants: mutants.sort((a, b) => a.start - b.start || b.end - a.end).map(readWhereUsed), statements }
}
