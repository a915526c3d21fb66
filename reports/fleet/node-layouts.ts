/** Nodes for the GPUs of a packing, and the layouts by which NVIDIA's MIG manager cuts them. */

import { stringify } from 'yaml'
import { grouped } from '../../trials/grouped.ts'
import { type PackedGpu, wholeGpu } from './packing.ts'

/** GPUs of a node that are cut alike; without slices they stay whole. */
interface Cut {
  /** Indexes within the node. */
  readonly devices: readonly number[]
  readonly slices: readonly string[]
}

/** Nodes that are alike. */
interface NodeLayout {
  readonly kind: string
  /** Value of the label that the MIG manager reads; absent: nothing there is cut. */
  readonly config?: string
  readonly nodes: number
  readonly cuts: readonly Cut[]
}

/** The label's value for GPUs that stay whole, of NVIDIA's own layouts. */
const uncutConfig = 'all-disabled'
const label = 'nvidia.com/mig.config'
const configMapName = 'tune-fleet-mig-layouts'

/** @param perNode GPUs of a node, of a kind */
export function planNodes(
  gpus: readonly PackedGpu[],
  perNode: (kind: string) => number,
): NodeLayout[] {
  return [...grouped(gpus, ({ kind }) => kind)].flatMap(([kind, gpusOfKind]) => {
    const nodes = fillNodes(gpusOfKind, perNode(kind)).map(groupCuts)
    let configCount = 0
    return [...grouped(nodes, (cuts) => JSON.stringify(cuts)).values()].map((alike): NodeLayout => {
      const cuts = alike[0]!
      const isCut = cuts.some(({ slices }) => slices.length > 0)
      return {
        kind,
        nodes: alike.length,
        cuts,
        ...(isCut && { config: `fleet-${kind.toLowerCase()}-${++configCount}` }),
      }
    })
  })
}

/**
 * Fills nodes with GPUs of the same partition, so that few layouts are needed; the remaining GPUs
 * share nodes. A replica on several GPUs stays in one node; one that needs more than a node takes
 * whole nodes.
 */
function fillNodes(gpus: readonly PackedGpu[], size: number): PackedGpu[][] {
  // A replica on several GPUs takes them whole, so each has one slot.
  const countReplicaGpus = ({ slots }: PackedGpu) => slots[0]?.segment?.gpus ?? 1
  const alike = grouped(gpus, (gpu) =>
    countReplicaGpus(gpu) > 1
      ? JSON.stringify([gpu.slots[0]!.model, gpu.slots[0]!.segment])
      : listMigSlices(gpu).join(),
  )
  const blocks = [...alike.values()].flatMap((same) => {
    const needed = countReplicaGpus(same[0]!)
    if (needed > 1) return splitIntoChunks(same, Math.min(size, needed))
    return splitIntoChunks(same, size).flatMap((block) =>
      block.length < size ? splitIntoChunks(block, 1) : [block],
    )
  })
  const nodes: PackedGpu[][] = []
  for (const block of blocks.sort((a, b) => b.length - a.length)) {
    const nodeWithRoom = nodes.find((node) => node.length + block.length <= size)
    if (nodeWithRoom) nodeWithRoom.push(...block)
    else nodes.push([...block])
  }
  return nodes
}

/** Shares under MPS are no slices: nothing is cut for them. */
const listMigSlices = ({ slots }: PackedGpu): string[] =>
  slots
    .flatMap(({ slice, segment }) =>
      slice === wholeGpu || segment?.share !== undefined ? [] : [slice],
    )
    .sort()

const splitIntoChunks = <T>(all: readonly T[], size: number): T[][] =>
  Array.from({ length: Math.ceil(all.length / size) }, (_, i) =>
    all.slice(i * size, (i + 1) * size),
  )

function groupCuts(node: readonly PackedGpu[]): Cut[] {
  const alike = grouped(
    node.map((gpu, index) => ({ index, slices: listMigSlices(gpu) })),
    ({ slices }) => slices.join(),
  )
  return [...alike.values()].map((cut) => ({
    devices: cut.map(({ index }) => index),
    slices: cut[0]!.slices,
  }))
}

/**
 * Renders a ConfigMap of these layouts for the MIG manager of NVIDIA's GPU operator; undefined
 * if nothing is cut.
 * @param perNode as for `planNodes`
 */
export function renderMigLayouts(
  layouts: readonly NodeLayout[],
  perNode: (kind: string) => number,
): string | undefined {
  const configuredLayouts = layouts.filter(({ config }) => config !== undefined)
  if (configuredLayouts.length === 0) return undefined
  const layoutFile = {
    version: 'v1',
    'mig-configs': {
      [uncutConfig]: [{ devices: 'all', 'mig-enabled': false }],
      ...Object.fromEntries(
        configuredLayouts.map(({ config, kind, cuts }) => [
          config!,
          listDevices(cuts, perNode(kind)),
        ]),
      ),
    },
  }
  const map = {
    apiVersion: 'v1',
    kind: 'ConfigMap',
    metadata: { name: configMapName, namespace: 'gpu-operator' },
    data: { 'config.yaml': stringify(layoutFile, { lineWidth: 0 }) },
  }
  return `${renderHeader(layouts)}${stringify(map, { lineWidth: 0, version: '1.1' })}`
}

/** The list names every GPU of a node; those that the fleet does not use stay whole. */
function listDevices(cuts: readonly Cut[], size: number): readonly object[] {
  const usedGpus = cuts.reduce((sum, { devices }) => sum + devices.length, 0)
  // `groupCuts` numbers the node's GPUs from 0 without gaps.
  const unusedGpus = Array.from({ length: size - usedGpus }, (_, i) => usedGpus + i)
  return [...cuts, ...(unusedGpus.length > 0 ? [{ devices: unusedGpus, slices: [] }] : [])].map(
    ({ devices, slices }) => ({
      devices: devices.length === size ? 'all' : devices,
      'mig-enabled': slices.length > 0,
      ...(slices.length > 0 && {
        'mig-devices': Object.fromEntries(
          [...grouped(slices, (slice) => slice)].map(([slice, same]) => [slice, same.length]),
        ),
      }),
    }),
  )
}

function renderHeader(layouts: readonly NodeLayout[]): string {
  const cutKinds = new Set(layouts.flatMap(({ kind, config }) => (config ? [kind] : [])))
  const lines = [
    "MIG layouts of a fleet, for the MIG manager of NVIDIA's GPU operator with mig.strategy=mixed. This file does not contain the operator's own layouts.",
    `kubectl patch clusterpolicies.nvidia.com/cluster-policy --type=merge -p '{"spec": {"migManager": {"config": {"name": "${configMapName}"}}}}'`,
    'Then label this many idle nodes:',
    ...layouts
      .filter(({ kind }) => cutKinds.has(kind))
      .map(
        ({ kind, nodes, config = uncutConfig }) =>
          `  ${nodes} ${nodes === 1 ? 'node' : 'nodes'} with ${kind}${config === uncutConfig ? ', not partitioned' : ''}: kubectl label node NODE ${label}=${config} --overwrite`,
      ),
  ]
  return lines.map((line) => `# ${line}\n`).join('')
}
