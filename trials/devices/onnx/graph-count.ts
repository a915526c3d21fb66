/**
 * Work of a graph for one item: its products, attention, kernels, and the elements that go to and
 * from memory.
 */
import { flopsOf, type Product, type Work } from '../call-work.ts'
import type { GraphNode, OnnxGraph } from './graph.ts'
import { boundInputs, fixedBatch, type GraphSizes } from './graph-inputs.ts'
import { isCounted, type NodeWork, roleOf, workOfNode } from './kernels.ts'
import { type Known, sizeOf } from './known-tensor.ts'
import { shapeRules } from './shape-rules.ts'

/** Counts of one item; elements, not bytes. */
export interface GraphCount {
  readonly kernels: number
  readonly products: readonly Product[]
  readonly attention: NonNullable<Work['attention']>
  /** Read and written by kernels, when nothing stays in the cache. */
  readonly activations: number
  /** What one kernel reads and writes, the mean over elements. */
  readonly workingSet: number
  /** The most that is alive at once, each tensor from where it is made to where it is last read. */
  readonly live: number
  /** All that operators make, views left out. */
  readonly kept: number
  /** The largest convolution's input unfolded. */
  readonly lowered: number
  /**
   * Operators whose work is not in here, with how many there are: what runs inside a condition or a
   * loop, what depends on values, what is not known.
   */
  readonly notCounted: Readonly<Record<string, number>>
}

interface Kernel {
  readonly node: GraphNode
  readonly work?: NodeWork
  /** Matrices of which none is a weight. */
  readonly mixes: boolean
  readonly reduces: boolean
  reads: number
  writes: number
  flopsPerBlock: number
}

export function countGraph(graph: OnnxGraph, sizes: GraphSizes): GraphCount {
  const walk = new Walk(graph, sizes)
  for (const node of graph.nodes) walk.visit(node)
  return walk.count(fixedBatch(graph) ?? 1)
}

class Walk {
  readonly #known = new Map<string, Known>()
  readonly #kernels: Kernel[] = []
  /** The kernel that makes a tensor; what is elementwise after it is done on the way out. */
  readonly #owner = new Map<string, Kernel>()
  readonly #missed: Record<string, number> = {}
  readonly #bound: ReadonlyMap<string, number>
  #kept = 0

  constructor(
    readonly graph: OnnxGraph,
    sizes: GraphSizes,
  ) {
    for (const [name, { shape, values }] of Object.entries(graph.weights))
      this.#known.set(name, { shape, values, constant: true })
    const { shapes, names } = boundInputs(graph, sizes)
    for (const [name, shape] of shapes) this.#known.set(name, { shape, constant: false })
    this.#bound = names
  }

  visit(node: GraphNode): void {
    const inputs = node.inputs.map((name) => this.#known.get(name))
    const outputs = this.#outputsOf(node, inputs)
    node.outputs.forEach((name, i) => {
      if (name !== '') this.#known.set(name, outputs[i])
    })
    const output = outputs[0]
    if (output === undefined) this.#miss(node, inputs)
    else if (!output.constant && output.values === undefined) this.#run(node, inputs, output)
  }

  /** By the operator's rule, else by what the file says of the tensors. */
  #outputsOf(node: GraphNode, inputs: readonly Known[]): readonly Known[] {
    const rule = shapeRules[node.op]
    const told = rule?.(node, inputs)
    if (told !== undefined) return told
    return node.outputs.map((name) => {
      const shape = this.graph.shapes[name]?.map((size) =>
        typeof size === 'number' ? size : this.#bound.get(size),
      )
      return shape?.every((size) => size !== undefined) ? { shape, constant: false } : undefined
    })
  }

  #miss(node: GraphNode, inputs: readonly Known[]): void {
    if (
      shapeRules[node.op] === undefined ||
      isCounted(node.op) ||
      inputs.every((input, i) => input !== undefined || node.inputs[i] === '')
    )
      this.#missed[node.op] = (this.#missed[node.op] ?? 0) + 1
  }

  #run(node: GraphNode, inputs: readonly Known[], output: NonNullable<Known>): void {
    const written = sizeOf(output.shape)
    if (isCounted(node.op)) {
      const work = workOfNode(node, inputs, output)
      if (work === undefined) this.#miss(node, [undefined])
      else this.#product(node, work, inputs, written)
      return
    }
    if (shapeRules[node.op] === undefined) this.#miss(node, inputs)
    const role = roleOf(node.op)
    const before = this.#latest(node)
    if (role !== 'view') this.#kept += written
    if (role === 'joined') return
    const lookedUp = role === 'lookup' && inputs[0]?.constant === true
    const joins =
      role === 'view' ||
      role === 'elementwise' ||
      (role === 'lookup' && !lookedUp) ||
      (role === 'reduction' && before?.reduces === true) ||
      (node.op === 'Softmax' && before?.mixes === true)
    if (joins && before !== undefined) this.#join(node, before, inputs, written, role === 'view')
    else if (role !== 'view')
      this.#start(
        node,
        { mixes: false, reduces: role === 'reduction' },
        this.#readBy(node, inputs, lookedUp, written),
        written,
      )
  }

  /** What a kernel of its own reads; of a table only the rows looked up. */
  #readBy(node: GraphNode, inputs: readonly Known[], lookedUp: boolean, written: number): number {
    if (lookedUp) return written
    return inputs.reduce(
      (sum, input, i) =>
        sum + (input && !input.constant && node.inputs[i] !== '' ? sizeOf(input.shape) : 0),
      0,
    )
  }

  #product(node: GraphNode, work: NodeWork, inputs: readonly Known[], written: number): void {
    this.#kept += written
    const before = this.#latest(node)
    // Scores and what they weigh are one fused kernel.
    if (
      work.blocks !== undefined &&
      work.products.length === 0 &&
      before?.mixes === true &&
      before.work?.blocks?.blocks === work.blocks.blocks
    ) {
      before.flopsPerBlock += work.blocks.flopsPerBlock
      before.reads += this.#foreign(node, before, inputs)
      before.writes = written
      this.#own(node, before)
      return
    }
    const reads = this.#readBy(node, inputs, false, written)
    this.#start(node, { work, mixes: work.blocks !== undefined, reduces: false }, reads, written)
  }

  #start(
    node: GraphNode,
    kind: Pick<Kernel, 'work' | 'mixes' | 'reduces'>,
    reads: number,
    writes: number,
  ): void {
    const kernel: Kernel = {
      node,
      ...kind,
      reads,
      writes,
      flopsPerBlock: kind.work?.blocks?.flopsPerBlock ?? 0,
    }
    this.#kernels.push(kernel)
    this.#own(node, kernel)
  }

  #join(
    node: GraphNode,
    kernel: Kernel,
    inputs: readonly Known[],
    written: number,
    view: boolean,
  ): void {
    if (!view) {
      kernel.reads += this.#foreign(node, kernel, inputs)
      kernel.writes = Math.max(written, Math.min(kernel.writes, written))
    }
    this.#own(node, kernel)
  }

  /** Elements that come from elsewhere: a residual, a mask. */
  #foreign(node: GraphNode, kernel: Kernel, inputs: readonly Known[]): number {
    return inputs.reduce(
      (sum, input, i) =>
        sum +
        (input && !input.constant && this.#owner.get(node.inputs[i]!) !== kernel
          ? sizeOf(input.shape)
          : 0),
      0,
    )
  }

  #own(node: GraphNode, kernel: Kernel): void {
    for (const name of node.outputs) this.#owner.set(name, kernel)
  }

  #latest(node: GraphNode): Kernel | undefined {
    const owners = node.inputs
      .map((name) => this.#owner.get(name))
      .filter((kernel) => kernel !== undefined)
    return owners.reduce<Kernel | undefined>(
      (a, b) => (a && this.#kernels.indexOf(a) > this.#kernels.indexOf(b) ? a : b),
      undefined,
    )
  }

  /** @param items in the batch that was counted */
  count(items: number): GraphCount {
    const each = this.#kernels.map((kernel) => (kernel.reads + kernel.writes) / items)
    const total = each.reduce((a, b) => a + b, 0)
    const products = sideBySide(this.#kernels).map((product) => ({
      ...product,
      rows: product.rows / items,
    }))
    return {
      kernels:
        this.#kernels.reduce((sum, { work }) => sum + Math.max(1, work?.steps ?? 1), 0) -
        merged(this.#kernels),
      products,
      attention: this.#kernels.flatMap(({ work, flopsPerBlock }) =>
        work?.blocks ? [{ count: 1, blocks: work.blocks.blocks / items, flopsPerBlock }] : [],
      ),
      activations: total,
      workingSet: total === 0 ? 0 : each.reduce((sum, n) => sum + n ** 2, 0) / total,
      live: this.#live() / items,
      kept: this.#kept / items,
      lowered: Math.max(
        0,
        ...products
          .filter((p) => p.convolution && p.rows > 1)
          .map(({ rows, depth }) => rows * depth),
      ),
      notCounted: this.#missed,
    }
  }

  /** What is elementwise is done in place, and views are none of their own. */
  #live(): number {
    const { nodes } = this.graph
    const buffers = new Map<string, string>()
    const bufferOf = (name: string) => buffers.get(name) ?? name
    const lastRead = new Map<string, number>()
    nodes.forEach((node, i) => {
      for (const name of node.inputs) lastRead.set(bufferOf(name), i)
      const inPlace = ['view', 'elementwise'].includes(roleOf(node.op)) && !isCounted(node.op)
      const from = inPlace
        ? node.inputs.find((name) => this.#known.get(name)?.constant === false)
        : undefined
      if (from !== undefined) for (const name of node.outputs) buffers.set(name, bufferOf(from))
    })
    let alive = 0
    let most = 0
    const ending = new Map<number, number>()
    nodes.forEach((node, i) => {
      for (const name of node.outputs) {
        const tensor = this.#known.get(name)
        if (tensor === undefined || tensor.constant || tensor.values || buffers.has(name)) continue
        const size = sizeOf(tensor.shape)
        alive += size
        const end = lastRead.get(name) ?? nodes.length
        ending.set(end, (ending.get(end) ?? 0) + size)
      }
      most = Math.max(most, alive)
      alive -= ending.get(i) ?? 0
    })
    return most
  }
}

/**
 * Products of weights with one and the same input are done side by side, as queries, keys and
 * values are.
 */
function sideBySide(kernels: readonly Kernel[]): Product[] {
  const joined = new Map<string, Product>()
  kernels.forEach(({ node, work }, i) => {
    work?.products.forEach((product, j) => {
      const key = joinsOthers(node, product)
        ? `${node.inputs[0]} ${product.rows} ${product.depth}`
        : `${i} ${j}`
      const known = joined.get(key)
      joined.set(key, known ? { ...known, columns: known.columns + product.columns } : product)
    })
  })
  return [...joined.values()]
}
const joinsOthers = ({ op }: GraphNode, product: Product) =>
  (op.endsWith('MatMul') || op.endsWith('Gemm')) && product.count === 1

/** How many kernels that saves. */
const merged = (kernels: readonly Kernel[]): number =>
  kernels.reduce((sum, { work }) => sum + (work?.products.length ?? 0), 0) -
  sideBySide(kernels).length

/** Multiply-adds of one item. */
export const multiplyAdds = (count: Pick<GraphCount, 'products' | 'attention'>): number =>
  flopsOf(count) / 2
