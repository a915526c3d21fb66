/** Counts the work of a graph for one item: products, attention, kernels and memory traffic. */
import { countFlops, type MatrixProduct, type Work } from '../call-work.ts'
import type { GraphNode, OnnxGraph } from './graph.ts'
import { bindInputShapes, type GraphSizes, readFixedBatch } from './graph-inputs.ts'
import { classifyOperator, countNodeWork, isCounted, type NodeWork } from './kernels.ts'
import { shapeRules } from './shape-rules.ts'
import { countElements, type MaybeTensor } from './tensor-info.ts'

/** Counts of one item; elements, not bytes. */
export interface GraphCount {
  readonly kernels: number
  readonly products: readonly MatrixProduct[]
  readonly attention: NonNullable<Work['attention']>
  /** Read and written by kernels, without a cache. */
  readonly activations: number
  /** Traffic of one kernel, weighted by elements. */
  readonly workingSet: number
  /** Peak of the tensors alive at once, each from its creation to its last read. */
  readonly live: number
  /** Outputs of all operators except views. */
  readonly kept: number
  /** The largest im2col matrix of a convolution. */
  readonly lowered: number
  /**
   * Operators that are not counted, with their number: conditions and loops, work that depends on
   * values, unknown operators.
   */
  readonly notCounted: Readonly<Record<string, number>>
}

interface Kernel {
  readonly node: GraphNode
  readonly work?: NodeWork
  /** A product of two activations, such as attention scores. */
  readonly multipliesActivations: boolean
  readonly reduces: boolean
  reads: number
  writes: number
  flopsPerBlock: number
}

export function countGraph(graph: OnnxGraph, sizes: GraphSizes): GraphCount {
  const walk = new GraphWalk(graph, sizes)
  for (const node of graph.nodes) walk.visit(node)
  return walk.count(readFixedBatch(graph) ?? 1)
}

class GraphWalk {
  readonly #tensors = new Map<string, MaybeTensor>()
  readonly #kernels: Kernel[] = []
  /** The kernel that produces a tensor; elementwise operators are fused into it. */
  readonly #producers = new Map<string, Kernel>()
  readonly #uncounted: Record<string, number> = {}
  readonly #dimensions: ReadonlyMap<string, number>
  #stored = 0

  constructor(
    readonly graph: OnnxGraph,
    sizes: GraphSizes,
  ) {
    for (const [name, { shape, values }] of Object.entries(graph.weights))
      this.#tensors.set(name, { shape, values, constant: true })
    const { shapes, names } = bindInputShapes(graph, sizes)
    for (const [name, shape] of shapes) this.#tensors.set(name, { shape, constant: false })
    this.#dimensions = names
  }

  visit(node: GraphNode): void {
    const inputs = node.inputs.map((name) => this.#tensors.get(name))
    const outputs = this.#inferOutputs(node, inputs)
    node.outputs.forEach((name, i) => {
      if (name !== '') this.#tensors.set(name, outputs[i])
    })
    const output = outputs[0]
    if (output === undefined) {
      // An operator with a shape rule is not recorded if it only lacks shapes from those before it.
      if (
        shapeRules[node.op] === undefined ||
        isCounted(node.op) ||
        inputs.every((input, i) => input !== undefined || node.inputs[i] === '')
      )
        this.#recordUncounted(node)
    } else if (!output.constant && output.values === undefined)
      this.#addOperator(node, inputs, output)
  }

  /** By the operator's shape rule, else by the shapes in the file. */
  #inferOutputs(node: GraphNode, inputs: readonly MaybeTensor[]): readonly MaybeTensor[] {
    const rule = shapeRules[node.op]
    const inferred = rule?.(node, inputs)
    if (inferred !== undefined) return inferred
    return node.outputs.map((name) => {
      const shape = this.graph.shapes[name]?.map((size) =>
        typeof size === 'number' ? size : this.#dimensions.get(size),
      )
      return shape?.every((size) => size !== undefined) ? { shape, constant: false } : undefined
    })
  }

  #recordUncounted({ op }: GraphNode): void {
    this.#uncounted[op] = (this.#uncounted[op] ?? 0) + 1
  }

  #addOperator(
    node: GraphNode,
    inputs: readonly MaybeTensor[],
    output: NonNullable<MaybeTensor>,
  ): void {
    const written = countElements(output.shape)
    if (isCounted(node.op)) {
      const work = countNodeWork(node, inputs, output)
      if (work === undefined) this.#recordUncounted(node)
      else this.#addProduct(node, work, inputs, written)
      return
    }
    if (shapeRules[node.op] === undefined) this.#recordUncounted(node)
    const role = classifyOperator(node.op)
    const before = this.#findLatestProducer(node)
    if (role !== 'view') this.#stored += written
    if (role === 'concatenation') return
    const lookedUp = role === 'lookup' && inputs[0]?.constant === true
    const joins =
      role === 'view' ||
      role === 'elementwise' ||
      (role === 'lookup' && !lookedUp) ||
      (role === 'reduction' && before?.reduces === true) ||
      (node.op === 'Softmax' && before?.multipliesActivations === true)
    if (joins && before !== undefined) this.#fuse(node, before, inputs, written, role === 'view')
    else if (role !== 'view')
      this.#startKernel(
        node,
        { multipliesActivations: false, reduces: role === 'reduction' },
        this.#countReads(node, inputs, lookedUp, written),
        written,
      )
  }

  /** Elements that a separate kernel reads; for a lookup, only the rows. */
  #countReads(
    node: GraphNode,
    inputs: readonly MaybeTensor[],
    lookedUp: boolean,
    written: number,
  ): number {
    if (lookedUp) return written
    return inputs.reduce(
      (sum, input, i) =>
        sum + (input && !input.constant && node.inputs[i] !== '' ? countElements(input.shape) : 0),
      0,
    )
  }

  #addProduct(
    node: GraphNode,
    work: NodeWork,
    inputs: readonly MaybeTensor[],
    written: number,
  ): void {
    this.#stored += written
    const before = this.#findLatestProducer(node)
    // Attention scores and their product with the values are one fused kernel.
    if (
      work.blocks !== undefined &&
      work.products.length === 0 &&
      before?.multipliesActivations === true &&
      before.work?.blocks?.blocks === work.blocks.blocks
    ) {
      before.flopsPerBlock += work.blocks.flopsPerBlock
      before.reads += this.#countOtherInputs(node, before, inputs)
      before.writes = written
      this.#setProducer(node, before)
      return
    }
    const reads = this.#countReads(node, inputs, false, written)
    this.#startKernel(
      node,
      { work, multipliesActivations: work.blocks !== undefined, reduces: false },
      reads,
      written,
    )
  }

  #startKernel(
    node: GraphNode,
    kind: Pick<Kernel, 'work' | 'multipliesActivations' | 'reduces'>,
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
    this.#setProducer(node, kernel)
  }

  #fuse(
    node: GraphNode,
    kernel: Kernel,
    inputs: readonly MaybeTensor[],
    written: number,
    view: boolean,
  ): void {
    if (!view) {
      kernel.reads += this.#countOtherInputs(node, kernel, inputs)
      kernel.writes = written
    }
    this.#setProducer(node, kernel)
  }

  /** Elements of inputs from other kernels: a residual, a mask. */
  #countOtherInputs(node: GraphNode, kernel: Kernel, inputs: readonly MaybeTensor[]): number {
    return inputs.reduce(
      (sum, input, i) =>
        sum +
        (input && !input.constant && this.#producers.get(node.inputs[i]!) !== kernel
          ? countElements(input.shape)
          : 0),
      0,
    )
  }

  #setProducer(node: GraphNode, kernel: Kernel): void {
    for (const name of node.outputs) this.#producers.set(name, kernel)
  }

  #findLatestProducer(node: GraphNode): Kernel | undefined {
    const owners = node.inputs
      .map((name) => this.#producers.get(name))
      .filter((kernel) => kernel !== undefined)
    return owners.reduce<Kernel | undefined>(
      (a, b) => (a && this.#kernels.indexOf(a) > this.#kernels.indexOf(b) ? a : b),
      undefined,
    )
  }

  /** @param items items in the counted batch */
  count(items: number): GraphCount {
    const each = this.#kernels.map((kernel) => (kernel.reads + kernel.writes) / items)
    const total = each.reduce((a, b) => a + b, 0)
    const products = mergeParallelProducts(this.#kernels).map((product) => ({
      ...product,
      rows: product.rows / items,
    }))
    return {
      kernels:
        this.#kernels.reduce((sum, { work }) => sum + Math.max(1, work?.steps ?? 1), 0) -
        countMergedKernels(this.#kernels),
      products,
      attention: this.#kernels.flatMap(({ work, flopsPerBlock }) =>
        work?.blocks ? [{ count: 1, blocks: work.blocks.blocks / items, flopsPerBlock }] : [],
      ),
      activations: total,
      workingSet: total === 0 ? 0 : each.reduce((sum, n) => sum + n ** 2, 0) / total,
      live: this.#computePeakLive() / items,
      kept: this.#stored / items,
      lowered: Math.max(
        0,
        ...products
          .filter((p) => p.convolution && p.rows > 1)
          .map(({ rows, depth }) => rows * depth),
      ),
      notCounted: this.#uncounted,
    }
  }

  /** Peak of live elements. Elementwise operators work in place, and views share their buffer. */
  #computePeakLive(): number {
    const { nodes } = this.graph
    const buffers = new Map<string, string>()
    const findBuffer = (name: string) => buffers.get(name) ?? name
    const lastRead = new Map<string, number>()
    nodes.forEach((node, i) => {
      for (const name of node.inputs) lastRead.set(findBuffer(name), i)
      const inPlace =
        ['view', 'elementwise'].includes(classifyOperator(node.op)) && !isCounted(node.op)
      const from = inPlace
        ? node.inputs.find((name) => this.#tensors.get(name)?.constant === false)
        : undefined
      if (from !== undefined) for (const name of node.outputs) buffers.set(name, findBuffer(from))
    })
    let alive = 0
    let most = 0
    const ending = new Map<number, number>()
    nodes.forEach((node, i) => {
      for (const name of node.outputs) {
        const tensor = this.#tensors.get(name)
        if (tensor === undefined || tensor.constant || tensor.values || buffers.has(name)) continue
        const size = countElements(tensor.shape)
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

/** Merges products of several weights with one input into one, such as queries, keys and values. */
function mergeParallelProducts(kernels: readonly Kernel[]): MatrixProduct[] {
  const joined = new Map<string, MatrixProduct>()
  kernels.forEach(({ node, work }, i) => {
    work?.products.forEach((product, j) => {
      const key = isMergeable(node, product)
        ? `${node.inputs[0]} ${product.rows} ${product.depth}`
        : `${i} ${j}`
      const known = joined.get(key)
      joined.set(key, known ? { ...known, columns: known.columns + product.columns } : product)
    })
  })
  return [...joined.values()]
}
const isMergeable = ({ op }: GraphNode, product: MatrixProduct) =>
  (op.endsWith('MatMul') || op.endsWith('Gemm')) && product.count === 1

/** Kernels that merging saves. */
const countMergedKernels = (kernels: readonly Kernel[]): number =>
  kernels.reduce((sum, { work }) => sum + (work?.products.length ?? 0), 0) -
  mergeParallelProducts(kernels).length

/** Multiply-adds of one item. */
export const countMultiplyAdds = (count: Pick<GraphCount, 'products' | 'attention'>): number =>
  countFlops(count) / 2
