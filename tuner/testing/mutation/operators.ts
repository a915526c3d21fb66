/**
 * The faults that are put into a source, one at a time: what a hand slips into when it writes a
 * decision.
 */
import { parseAst } from 'vitest/node'
import { Constants } from './constants.ts'
import { type Fault, Faults, isComparison } from './faults.ts'
import { isNode, type Node, type Place } from './syntax.ts'

export interface Mutant {
  /** The expression that is replaced, in UTF-16 units of the source. */
  readonly start: number
  readonly end: number
  readonly line: number
  readonly original: string
  readonly replacement: string
  readonly kind: string
  /**
   * Of a constant of the file: the places that read it, and its value there. It is computed once,
   * before any switch could be thrown.
   */
  readonly read?: { readonly at: readonly Place[]; readonly value: string }
}

export interface Analysis {
  /** In the order of the text, the outer before the inner. */
  readonly mutants: readonly Mutant[]
  /**
   * Where expressions begin that are statements in a block: after a line without a semicolon,
   * perhaps.
   */
  readonly statements: ReadonlySet<number>
}

/**
 * Every mutant of a TypeScript source. Texts, types, errors thrown and loops' steps are left alone.
 */
export function analyse(source: string): Analysis {
  const program = parseAst(source, { lang: 'ts' }) as unknown as Node
  const constants = new Constants(source, program)
  const { mutants, statements } = new Walk(source, program, constants)
  const inOrder = mutants.sort((a, b) => a.start - b.start || b.end - a.end)
  return {
    mutants: inOrder.map((mutant) => {
      const read = constants.readWhereUsed(mutant)
      return read ? { ...mutant, read } : mutant
    }),
    statements,
  }
}

interface Child {
  readonly node: Node
  readonly spine?: boolean
  readonly negated?: boolean
}

/** Every fault of a source, gathered on a walk through its syntax. */
class Walk {
  readonly mutants: Mutant[] = []
  readonly statements = new Set<number>()
  private readonly faults: Faults
  private readonly chained: ReadonlySet<Node>

  constructor(
    private readonly source: string,
    program: Node,
    private readonly constants: Constants,
  ) {
    this.faults = new Faults(source, constants.inTable)
    this.chained = partsOfChains(program)
    this.visit(program)
  }

  private add(node: Node, found: readonly Fault[]): void {
    const line = this.source.slice(0, node.start).split('\n').length
    for (const fault of found)
      this.mutants.push({
        start: node.start,
        end: node.end,
        line,
        original: this.faults.text(node),
        ...fault,
      })
  }

  /**
   * `spine`: a part of an optional chain, which cannot be cut out of it; `negated`: the operand of
   * a minus.
   */
  private visit(
    node: Node,
    { spine = false, negated = false }: { spine?: boolean; negated?: boolean } = {},
  ): void {
    if (node.type.startsWith('TS')) {
      // `x as T`, `x!`, `x satisfies T`: the value within; everything else is a type.
      if (isNode(node.expression) && !node.type.includes('Heritage'))
        this.visit(node.expression, { spine, negated })
      return
    }
    if (
      node.type === 'ThrowStatement' ||
      node.type === 'TemplateLiteral' ||
      node.type.startsWith('Import')
    )
      return
    if (node.type === 'NewExpression' && /Error$/.test(this.faults.text(node.callee as Node)))
      return
    if (node.type === 'Identifier' && !spine) this.constants.noteRead(node)
    if (!spine) this.add(node, this.faults.of(node, negated))
    for (const child of this.childrenOf(node)) this.visit(child.node, child)
  }

  /** A condition that has no fault of its own is negated whole. */
  private negation(test: Node): void {
    const bare =
      test.type === 'UnaryExpression' || test.type === 'LogicalExpression' || isComparison(test)
    if (!bare) this.add(test, [{ kind: 'condition', replacement: `!${this.faults.wrap(test)}` }])
  }

  private childrenOf(node: Node): Child[] {
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
        return [
          ...(this.chained.has(node) ? chained(node.object) : of(node.object)),
          ...(node.computed ? of(node.property) : []),
        ]
      case 'CallExpression':
      case 'NewExpression':
        // A callee is replaced with its call; what it stands on is looked into.
        return [...this.chainedCallee(node), ...of(node.arguments)]
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
        this.negation(node.test as Node)
        return of(node.test, node.consequent, node.alternate)
      case 'ConditionalExpression':
        this.negation(node.test as Node)
        return of(node.test, node.consequent, node.alternate)
      case 'AssignmentExpression':
        return [...this.assigned(node.left as Node), ...of(node.right)]
      case 'AssignmentPattern':
        return [...this.assigned(node.left as Node), ...of(node.right)]
      case 'Property':
        return node.shorthand && (node.value as Node).type === 'Identifier' ? [] : of(node.value)
      case 'PropertyDefinition':
        return of(node.value)
      case 'VariableDeclarator':
        return [...this.assigned(node.id as Node), ...of(node.init)]
      case 'Program':
      case 'BlockStatement':
      case 'SwitchCase': {
        const body = of(node.test, node.body, node.consequent)
        for (const { node: statement } of body)
          if (statement.type === 'ExpressionStatement') this.statements.add(statement.start)
        return body
      }
      case 'ExpressionStatement':
        this.removal(node.expression as Node)
        return of(node.expression)
      case 'TaggedTemplateExpression':
      case 'MetaProperty':
        return []
      default:
        return Object.entries(node)
          .filter(
            ([key]) =>
              ![
                'typeAnnotation',
                'returnType',
                'typeParameters',
                'typeArguments',
                'key',
                'label',
              ].includes(key),
          )
          .flatMap(([, value]) => of(value))
    }
  }

  /** What is left of an assignment is a place; only an index in it is a value. */
  private assigned(place: Node): Child[] {
    if (place.type === 'MemberExpression')
      return place.computed && isNode(place.property) ? [{ node: place.property }] : []
    return place.type === 'Identifier' ? [] : this.childrenOf(place)
  }

  private chainedCallee(node: Node): Child[] {
    const callee = node.callee as Node
    if (this.chained.has(node)) return [{ node: callee, spine: true }]
    return callee.type === 'MemberExpression'
      ? this.childrenOf(callee)
      : callee.type === 'Identifier'
        ? []
        : [{ node: callee }]
  }

  private removal(expression: Node): void {
    if (isNode(expression.callee) && expression.callee.type === 'Super') return
    if (
      expression.type === 'AssignmentExpression' ||
      expression.type === 'CallExpression' ||
      expression.type === 'AwaitExpression'
    )
      this.add(expression, [{ kind: 'dropped statement', replacement: 'undefined' }])
  }
}

/** Members and calls between an optional chain's end and its beginning. */
function partsOfChains(node: Node, parts = new Set<Node>()): ReadonlySet<Node> {
  if (node.type === 'ChainExpression') {
    let at: unknown = node.expression
    while (isNode(at)) {
      parts.add(at)
      at = at.object ?? at.callee ?? (at.type === 'TSNonNullExpression' ? at.expression : undefined)
    }
  }
  for (const value of Object.values(node))
    for (const child of [value].flat()) if (isNode(child)) partsOfChains(child, parts)
  return parts
}
