/**
 * Counts the work of a graph for one item: products, attention, kernels and memory traffic. Walks
 * the nodes in order, infers shapes, and fuses operators into kernels as inference runtimes do.
 */
import { countFlops, type MatrixProduct, type Work } from '../call-work.ts'
import type { GraphNode, OnnxGraph } from './graph.ts'
import { bindInputShapes, type GraphSizes, readFixedBatch } from './graph-inputs.ts'
import { classifyOperator, countNodeWork, isMatrixOperator, type NodeWork } from './kernels.ts'
import { shapeRules } from './shape-rules.ts'
import { countElements, type MaybeTensor } from './tensor-info.ts'

/** Counts of one item; elements, not bytes. */
export interface GraphCount {
  readonly kernels: number
  readonly products: readonly MatrixProduct[]
  readonly attention: NonNullable<Work['attention']>
  /** Read and written by kernels, without a cache. */
  readonly activations: number
  /**
   * Mean traffic of one kernel, weighted by the traffic: large kernels cause most cache
   * misses.
   */
  readonly meanKernelTraffic: number
  /** Peak of the tensors alive at once, each from its creation to its last read. */
  readonly peakLiveElements: number
  /** Outputs of all operators except views: what a framework stores that frees no activation. */
  readonly storedElements: number
  /** The largest im2col matrix of a convolution. */
  readonly maxIm2colElements: number
  /**
   * Operators that are not counted, with their number: conditions and loops, work that depends on
   * values, unknown operators.
   */
  readonly unsupportedOperators: Readonly<Record<string, number>>
}

interface Kernel {
  readonly node: GraphNode
  readonly work?: NodeWork
  /** A product of two activations, such as attention scores. */
  readonly multipliesActivations: boolean
  readonly isReduction: boolean
  readElements: number
  writtenElements: number
  /** Operations of one block of attention: usually a head of an item. */
  flopsPerBlock: number
}

export function countGraph(graph: OnnxGraph, sizes: GraphSizes): GraphCount {
  const counter = new KernelCounter(graph, sizes)
  for (const node of graph.nodes) counter.visit(node)
  return counter.summarise(readFixedBatch(graph) ?? 1)
}

class KernelCounter {
  readonly #tensors = new Map<string, MaybeTensor>()
  readonly #kernels: Kernel[] = []
  /** The kernel that produces a tensor; elementwise operators are fused into it. */
  readonly #producers = new Map<string, Kernel>()
  readonly #unsupportedOperators: Record<string, number> = {}
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
      // Recorded as unsupported, unless its shape rule only lacks shapes of an earlier operator.
      if (
        shapeRules[node.op] === undefined ||
        isMatrixOperator(node.op) ||
        inputs.every((input, i) => input !== undefined || node.inputs[i] === '')
      )
        this.#recordUnsupported(node)
    } else if (!output.constant && output.values === undefined)
      this.#addOperator(node, inputs, output)
  }

  /** Infers output shapes by the operator's rule, else takes the shapes that the file declares. */
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

  #recordUnsupported({ op }: GraphNode): void {
    this.#unsupportedOperators[op] = (this.#unsupportedOperators[op] ?? 0) + 1
  }

  #addOperator(
    node: GraphNode,
    inputs: readonly MaybeTensor[],
    output: NonNullable<MaybeTensor>,
  ): void {
    const outputElements = countElements(output.shape)
    if (isMatrixOperator(node.op)) {
      const work = countNodeWork(node, inputs, output)
      if (work === undefined) this.#recordUnsupported(node)
      else this.#addProduct(node, work, inputs, outputElements)
      return
    }
    if (shapeRules[node.op] === undefined) this.#recordUnsupported(node)
    const role = classifyOperator(node.op)
    const producer = this.#findLatestProducer(node)
    if (role !== 'view') this.#stored += outputElements
    if (role === 'concatenation') return
    const isWeightLookup = role === 'lookup' && inputs[0]?.constant === true
    // Fused into the kernel that produces its input: views, elementwise operators, indexing of
    // activations, a reduction after a reduction, and softmax after attention scores.
    const isFused =
      role === 'view' ||
      role === 'elementwise' ||
      (role === 'lookup' && !isWeightLookup) ||
      (role === 'reduction' && producer?.isReduction === true) ||
      (node.op === 'Softmax' && producer?.multipliesActivations === true)
    if (isFused && producer !== undefined)
      this.#fuse(node, producer, inputs, outputElements, role === 'view')
    else if (role !== 'view')
      this.#startKernel(
        node,
        { multipliesActivations: false, isReduction: role === 'reduction' },
        this.#countReads(node, inputs, isWeightLookup, outputElements),
        outputElements,
      )
  }

  /** Counts the elements that a separate kernel reads; of looked-up weights, only the rows. */
  #countReads(
    node: GraphNode,
    inputs: readonly MaybeTensor[],
    isWeightLookup: boolean,
    written: number,
  ): number {
    if (isWeightLookup) return written
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
    const producer = this.#findLatestProducer(node)
    // Attention scores and their product with the values are one fused kernel.
    if (
      work.attention !== undefined &&
      work.products.length === 0 &&
      producer?.multipliesActivations === true &&
      producer.work?.attention?.blocks === work.attention.blocks
    ) {
      producer.flopsPerBlock += work.attention.flopsPerBlock
      producer.readElements += this.#countOtherInputs(node, producer, inputs)
      producer.writtenElements = written
      this.#setProducer(node, producer)
      return
    }
    const reads = this.#countReads(node, inputs, false, written)
    this.#startKernel(
      node,
      { work, multipliesActivations: work.attention !== undefined, isReduction: false },
      reads,
      written,
    )
  }

  #startKernel(
    node: GraphNode,
    kind: Pick<Kernel, 'work' | 'multipliesActivations' | 'isReduction'>,
    readElements: number,
    writtenElements: number,
  ): void {
    const kernel: Kernel = {
      node,
      ...kind,
      readElements,
      writtenElements,
      flopsPerBlock: kind.work?.attention?.flopsPerBlock ?? 0,
    }
    this.#kernels.push(kernel)
    this.#setProducer(node, kernel)
  }

  #fuse(
    node: GraphNode,
    kernel: Kernel,
    inputs: readonly MaybeTensor[],
    written: number,
    isView: boolean,
  ): void {
    if (!isView) {
      kernel.readElements += this.#countOtherInputs(node, kernel, inputs)
      kernel.writtenElements = written
    }
    this.#setProducer(node, kernel)
  }

  /** Counts the elements of inputs from other kernels, such as a residual or a mask. */
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
    const producers = node.inputs
      .map((name) => this.#producers.get(name))
      .filter((kernel) => kernel !== undefined)
    return producers.reduce<Kernel | undefined>(
      (a, b) => (a && this.#kernels.indexOf(a) > this.#kernels.indexOf(b) ? a : b),
      undefined,
    )
  }

  /** @param batchItems items in the batch that the graph was counted with */
  summarise(batchItems: number): GraphCount {
    const trafficPerKernel = this.#kernels.map(
      (kernel) => (kernel.readElements + kernel.writtenElements) / batchItems,
    )
    const total = trafficPerKernel.reduce((a, b) => a + b, 0)
    const products = mergeParallelProducts(this.#kernels).map((product) => ({
      ...product,
      rows: product.rows / batchItems,
    }))
    return {
      kernels:
        this.#kernels.reduce((sum, { work }) => sum + Math.max(1, work?.steps ?? 1), 0) -
        countMergedKernels(this.#kernels),
      products,
      attention: this.#kernels.flatMap(({ work, flopsPerBlock }) =>
        work?.attention
          ? [{ count: 1, blocks: work.attention.blocks / batchItems, flopsPerBlock }]
          : [],
      ),
      activations: total,
      meanKernelTraffic:
        total === 0 ? 0 : trafficPerKernel.reduce((sum, n) => sum + n ** 2, 0) / total,
      peakLiveElements: this.#computePeakLive() / batchItems,
      storedElements: this.#stored / batchItems,
      maxIm2colElements: Math.max(
        0,
        ...products
          .filter((p) => p.convolution && p.rows > 1)
          .map(({ rows, depth }) => rows * depth),
      ),
      unsupportedOperators: this.#unsupportedOperators,
    }
  }

  /**
   * Computes the peak of live elements. Elementwise operators work in place, and views share their
   * buffer.
   */
  #computePeakLive(): number {
    const { nodes } = this.graph
    const buffers = new Map<string, string>()
    const findBuffer = (name: string) => buffers.get(name) ?? name
    const lastRead = new Map<string, number>()
    nodes.forEach((node, i) => {
      for (const name of node.inputs) lastRead.set(findBuffer(name), i)
      const isInPlace =
        ['view', 'elementwise'].includes(classifyOperator(node.op)) && !isMatrixOperator(node.op)
      const source = isInPlace
        ? node.inputs.find((name) => this.#tensors.get(name)?.constant === false)
        : undefined
      if (source !== undefined)
        for (const name of node.outputs) buffers.set(name, findBuffer(source))
    })
    let liveElements = 0
    let peakElements = 0
    /** Elements freed after each node. */
    const freedElements = new Map<number, number>()
    nodes.forEach((node, i) => {
      for (const name of node.outputs) {
        const tensor = this.#tensors.get(name)
        if (tensor === undefined || tensor.constant || tensor.values || buffers.has(name)) continue
        const size = countElements(tensor.shape)
        liveElements += size
        const end = lastRead.get(name) ?? nodes.length
        freedElements.set(end, (freedElements.get(end) ?? 0) + size)
      }
      peakElements = Math.max(peakElements, liveElements)
      liveElements -= freedElements.get(i) ?? 0
    })
    return peakElements
  }
}

/** Merges products of several weights with one input into one, such as queries, keys and values. */
function mergeParallelProducts(kernels: readonly Kernel[]): MatrixProduct[] {
  const merged = new Map<string, MatrixProduct>()
  kernels.forEach(({ node, work }, i) => {
    work?.products.forEach((product, j) => {
      const key = isMergeable(node, product)
        ? `${node.inputs[0]} ${product.rows} ${product.depth}`
        : `${i} ${j}`
      const other = merged.get(key)
      merged.set(key, other ? { ...other, columns: other.columns + product.columns } : product)
    })
  })
  return [...merged.values()]
}
const isMergeable = ({ op }: GraphNode, product: MatrixProduct) =>
  (op.endsWith('MatMul') || op.endsWith('Gemm')) && product.count === 1

/** Counts the kernels saved by merging parallel products. */
const countMergedKernels = (kernels: readonly Kernel[]): number =>
  kernels.reduce((sum, { work }) => sum + (work?.products.length ?? 0), 0) -
  mergeParallelProducts(kernels).length

/** Counts the multiply-adds of one item. */
export const countMultiplyAdds = (count: Pick<GraphCount, 'products' | 'attention'>): number =>
  countFlops(count) / 2
