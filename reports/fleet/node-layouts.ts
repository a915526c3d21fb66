/** How the GPUs of a packing stand in nodes, and what NVIDIA's MIG manager is told to cut there. */

import { stringify } from 'yaml'
import { grouped } from '../../trials/grouped.ts'
import { type PackedGpu, whole } from './packing.ts'

/** GPUs of a node that are cut alike. No slices: they stay whole. */
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
const uncut = 'all-disabled'
const label = 'nvidia.com/mig.config'
const configMapName = 'tune-fleet-mig-layouts'

/**
 * Fills nodes with GPUs that are cut alike, so that few layouts are needed; what is left over
 * shares nodes.
 * @param perNode GPUs of a node, of a kind
 */
export function planNodes(
  gpus: readonly PackedGpu[],
  perNode: (kind: string) => number,
): NodeLayout[] {
  return [...new Set(gpus.map(({ kind }) => kind))].flatMap((kind) => {
    const own = gpus.filter((gpu) => gpu.kind === kind)
    const size = perNode(kind)
    const alike = [...grouped(own.filter(standsAlone), (gpu) => slicesOf(gpu).join()).values()]
    const full = alike.flatMap((group) =>
      chunks(group.slice(0, group.length - (group.length % size)), size),
    )
    const rest = alike.flatMap((group) => group.slice(group.length - (group.length % size)))
    // What is left over goes beside replicas on several GPUs first.
    const shared = together(own, size).map((node) => [
      ...node,
      ...rest.splice(0, size - node.length),
    ])
    const nodesOfKind = [...shared, ...full, ...chunks(rest, size)]
    const byCuts = grouped(nodesOfKind.map(cutsOf), (cuts) => JSON.stringify(cuts))
    let named = 0
    return [...byCuts.values()].map((nodes): NodeLayout => {
      const [cuts] = nodes
      const isCut = cuts!.some(({ slices }) => slices.length > 0)
      return {
        kind,
        nodes: nodes.length,
        cuts: cuts!,
        ...(isCut && { config: `fleet-${kind.toLowerCase()}-${++named}` }),
      }
    })
  })
}

const standsAlone = ({ slots }: PackedGpu): boolean => (slots[0]?.segment?.gpus ?? 1) === 1

/**
 * Nodes with the GPUs of replicas on several, each replica within one, the largest first. One that
 * is larger than a node takes what a node has.
 */
function together(gpus: readonly PackedGpu[], size: number): PackedGpu[][] {
  const ofSegment = grouped(
    gpus.filter((gpu) => !standsAlone(gpu)),
    ({ slots }) => JSON.stringify([slots[0]!.model, slots[0]!.segment]),
  )
  const replicas = [...ofSegment.values()].flatMap((all) =>
    chunks(all, Math.min(size, all[0]!.slots[0]!.segment!.gpus)),
  )
  const nodes: PackedGpu[][] = []
  for (const replica of replicas.sort((a, b) => b.length - a.length)) {
    const open = nodes.find((node) => node.length + replica.length <= size)
    if (open) open.push(...replica)
    else nodes.push([...replica])
  }
  return nodes
}

/** Of MIG: under MPS nothing is cut. */
const slicesOf = ({ slots }: PackedGpu): string[] =>
  slots
    .flatMap(({ slice, segment }) =>
      slice === whole || segment?.share !== undefined ? [] : [slice],
    )
    .sort()

const chunks = <T>(all: readonly T[], size: number): T[][] =>
  Array.from({ length: Math.ceil(all.length / size) }, (_, i) =>
    all.slice(i * size, (i + 1) * size),
  )

function cutsOf(node: readonly PackedGpu[]): Cut[] {
  const alike = grouped(
    node.map((gpu, index) => ({ index, slices: slicesOf(gpu) })),
    ({ slices }) => slices.join(),
  )
  return [...alike.values()].map((cut) => ({
    devices: cut.map(({ index }) => index),
    slices: cut[0]!.slices,
  }))
}

/**
 * A ConfigMap of these layouts for the MIG manager of NVIDIA's GPU operator; undefined where
 * nothing is cut. @param perNode as for `planNodes`
 */
export function renderMigLayouts(
  layouts: readonly NodeLayout[],
  perNode: (kind: string) => number,
): string | undefined {
  const cut = layouts.filter(({ config }) => config !== undefined)
  if (cut.length === 0) return undefined
  const configs = Object.fromEntries(
    cut.map((layout) => [layout.config!, devicesOf(layout, perNode(layout.kind))]),
  )
  const all = {
    version: 'v1',
    'mig-configs': { [uncut]: [{ devices: 'all', 'mig-enabled': false }], ...configs },
  }
  const map = {
    apiVersion: 'v1',
    kind: 'ConfigMap',
    metadata: { name: configMapName, namespace: 'gpu-operator' },
    data: { 'config.yaml': stringify(all, { lineWidth: 0 }) },
  }
  return `${headerOf(layouts)}${stringify(map, { lineWidth: 0, version: '1.1' })}`
}

function devicesOf({ cuts }: NodeLayout, size: number): readonly object[] {
  const whole = (devices: 'all' | readonly number[]) => ({ devices, 'mig-enabled': false })
  const cutAs = (devices: 'all' | readonly number[], slices: readonly string[]) => ({
    devices,
    'mig-enabled': true,
    'mig-devices': Object.fromEntries(
      [...grouped(slices, (slice) => slice)].map(([slice, same]) => [slice, same.length]),
    ),
  })
  const used = cuts.reduce((sum, { devices }) => sum + devices.length, 0)
  const spare = Array.from({ length: size - used }, (_, i) => used + i)
  return [
    ...cuts.map(({ devices, slices }) => {
      const which = devices.length === size ? 'all' : devices
      return slices.length === 0 ? whole(which) : cutAs(which, slices)
    }),
    ...(spare.length > 0 ? [whole(spare)] : []),
  ]
}

const headerOf = (layouts: readonly NodeLayout[]): string =>
  [
    "How a fleet's GPUs are cut, for the MIG manager of NVIDIA's GPU operator, which runs with mig.strategy=mixed. Its own layouts are not in here.",
    `kubectl patch clusterpolicies.nvidia.com/cluster-policy --type=merge -p '{"spec": {"migManager": {"config": {"name": "${configMapName}"}}}}'`,
    'Then tell nodes that nothing runs on, as many as are said:',
    ...layouts
      .filter(({ config }) => config !== undefined)
      .map(
        ({ kind, nodes, config }) =>
          `  ${nodes} ${nodes === 1 ? 'node' : 'nodes'} with ${kind}: kubectl label node NODE ${label}=${config} --overwrite`,
      ),
    ...layouts
      .filter(
        ({ config, kind }) =>
          config === undefined &&
          layouts.some((other) => other.kind === kind && other.config !== undefined),
      )
      .map(
        ({ kind, nodes }) =>
          `  ${nodes} ${nodes === 1 ? 'node' : 'nodes'} with ${kind} stay whole: kubectl label node NODE ${label}=${uncut} --overwrite`,
      ),
  ]
    .map((line) => `# ${line}\n`)
    .join('')
