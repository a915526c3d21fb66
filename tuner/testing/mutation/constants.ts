/**
 * Constants of a file: computed once, before any switch could be thrown, so that a fault in one is
 * put where it is read.
 */
import { isNode, type Node, type Place } from './syntax.ts'

/**
 * So many numbers in one constant of a file are a table of published figures: to be compared with
 * its source, and no decision.
 */
const leastTable = 8

export class Constants {
  private readonly tables: Place[] = []
  private readonly known = new Map<string, { readonly init: Node; readonly at: Place[] }>()

  constructor(
    private readonly source: string,
    program: Node,
  ) {
    for (const statement of program.body as readonly Node[]) {
      const declared = isNode(statement.declaration) ? statement.declaration : statement
      if (declared.type !== 'VariableDeclaration' || declared.kind !== 'const') continue
      for (const { id, init } of declared.declarations as { id: Node; init: Node }[]) {
        if (id.type === 'Identifier' && this.isConstant(init))
          this.known.set(String(id.name), { init, at: [] })
        if (numbersIn(init) >= leastTable) this.tables.push(init)
      }
    }
  }

  noteRead(identifier: Node): void {
    this.known.get(this.text(identifier))?.at.push(identifier)
  }

  readonly inTable = (node: Place): boolean =>
    this.tables.some(({ start, end }) => start <= node.start && node.end <= end)

  /**
   * The places that read the constant in which a fault stands, and its value with that fault.
   * Undefined: it stands in none.
   */
  readWhereUsed(
    fault: Place & { readonly replacement: string },
  ): { readonly at: readonly Place[]; readonly value: string } | undefined {
    for (const { init, at } of this.known.values()) {
      if (fault.start < init.start || fault.end > init.end) continue
      const before = this.source.slice(init.start, fault.start)
      return {
        at,
        value: `${before}(${fault.replacement})${this.source.slice(fault.end, init.end)}`,
      }
    }
    return undefined
  }

  private text({ start, end }: Place): string {
    return this.source.slice(start, end)
  }

  /** `const LIMIT = 2 * 60`: numbers, operators and functions of Math. */
  private readonly isConstant = (node: Node): boolean => {
    if (['Literal', 'Identifier'].includes(node.type)) return true
    if (node.type === 'CallExpression')
      return (
        this.text(node.callee as Node).startsWith('Math.') &&
        (node.arguments as Node[]).every(this.isConstant)
      )
    if (node.type === 'MemberExpression') return this.text(node).startsWith('Math.')
    return (
      /^(Unary|Binary)Expression$/.test(node.type) &&
      [node.left, node.right, node.argument].filter(isNode).every(this.isConstant)
    )
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
