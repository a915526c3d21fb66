/**
 * The tuned values put into a manifest that the user has: a minimal change, comments, order and
 * everything else left as they are.
 */
import { isDeepStrictEqual } from 'node:util'
import { productsOf } from '../../trials/launchers/kubernetes/gpu-names.ts'
import {
  type GpuSelection,
  gpuTolerations,
} from '../../trials/launchers/kubernetes/gpu-selection.ts'
import { cpuQuantity, memoryQuantity } from './pod.ts'
import { nodesBought, refuseClaim, specGpus } from './pod-gpus.ts'
import type { Serving } from './serving.ts'
import { SpecError } from './spec-error.ts'
import {
  type Change,
  documentsOf,
  type Edited,
  type Path,
  type Plain,
  plainOf,
  setAt,
} from './yaml-edit.ts'

interface PatchOptions {
  /** The container to tune, where a pod has several. */
  readonly container?: string
  /** For messages. */
  readonly file: string
}

interface Patched {
  readonly text: string
  readonly changes: readonly Change[]
  /** 'BATCH_SIZE = 8: why it was not set', of tuned values that the container has no place for. */
  readonly unplaced: readonly string[]
}

interface Place extends Edited {
  readonly title: string
  readonly object: Plain
}

/** Where each kind keeps its pod spec. */
const podPaths: Readonly<Record<string, Path>> = {
  Deployment: ['spec', 'template', 'spec'],
  StatefulSet: ['spec', 'template', 'spec'],
  DaemonSet: ['spec', 'template', 'spec'],
  Pod: ['spec'],
  InferenceService: ['spec', 'predictor'],
}

/**
 * Sets what was tuned, and nothing else: cores, memory, GPU, environment variables and arguments of
 * the server's container; where a demand sizes them the replicas, or the bounds of an autoscaler.
 * Throws SpecError when the file has no workload, or several containers and none is named.
 */
export function patchManifests(text: string, serving: Serving, options: PatchOptions): Patched {
  if (serving.resources.pools !== undefined)
    throw new SpecError(
      'a patch sets one container, and this has pools of prefill and decode servers',
      'choose --target kubernetes --server sglang, or another --trial',
    )
  const places: Place[] = documentsOf(text, options.file).map((document, index) => {
    const object = plainOf(document, options.file)
    return {
      index,
      file: options.file,
      object,
      title: `${get(object, ['kind'])} ${get(object, ['metadata', 'name'])}`,
    }
  })
  const workload = places.find((p) => podPaths[String(get(p.object, ['kind']))])
  if (!workload) {
    const kinds = places.map((p) => get(p.object, ['kind'])).filter((k) => k !== undefined)
    throw new SpecError(
      `${options.file} holds no workload (${kinds.join(', ') || 'no Kubernetes objects'})`,
      `give a file with one of ${Object.keys(podPaths).join(', ')}`,
    )
  }
  const autoscaler = places.find((p) => get(p.object, ['kind']) === 'HorizontalPodAutoscaler')
  const wanted: { place: Place; path: Path; value: Plain }[] = [
    ...workloadValues(workload, serving, options, autoscaler !== undefined).map(
      ([path, value]) => ({ place: workload, path, value }),
    ),
    ...(autoscaler && serving.sized
      ? [
          { place: autoscaler, path: ['spec', 'minReplicas'], value: serving.minReplicas },
          { place: autoscaler, path: ['spec', 'maxReplicas'], value: serving.maxReplicas },
        ]
      : []),
  ]
  const { text: patched, changes } = wanted.reduce<{ text: string; changes: Change[] }>(
    (done, { place, path, value }) => {
      const from = get(place.object, path)
      if (includes(from, value)) return done
      return {
        text: setAt(done.text, place, path, value),
        changes: [...done.changes, { where: `${place.title}: ${path.join('.')}`, from, to: value }],
      }
    },
    { text, changes: [] },
  )
  const podPath = podPaths[String(get(workload.object, ['kind']))]!
  const environment = environmentValues(workload, containerOf(workload, podPath, options), serving)
  const nodes = tunesGpu(serving) ? gpuValues(workload, podPath, serving).unplaced : []
  return { text: patched, changes, unplaced: [...environment.unplaced, ...nodes] }
}

function workloadValues(
  place: Place,
  serving: Serving,
  options: PatchOptions,
  scaled: boolean,
): [Path, Plain][] {
  const kind = String(get(place.object, ['kind']))
  const podPath = podPaths[kind]!
  const containerPath = containerOf(place, podPath, options)
  return [
    ...(serving.sized ? replicaValues(kind, podPath, serving, scaled) : []),
    ...resourceValues(containerPath, serving),
    ...environmentValues(place, containerPath, serving).values,
    ...argumentValues(place, containerPath, serving),
    ...(tunesGpu(serving) ? gpuValues(place, podPath, serving).values : []),
  ]
}

function replicaValues(
  kind: string,
  podPath: Path,
  serving: Serving,
  scaled: boolean,
): [Path, Plain][] {
  if (kind === 'InferenceService')
    return [
      [[...podPath, 'minReplicas'], serving.minReplicas],
      [[...podPath, 'maxReplicas'], serving.maxReplicas],
    ]
  return (kind === 'Deployment' || kind === 'StatefulSet') && !scaled
    ? [[['spec', 'replicas'], serving.replicas]]
    : []
}

const tunesGpu = ({ configuration }: Serving): boolean =>
  ['gpu', 'gpus', 'gpuMemoryPercent', 'migProfile'].some((name) => name in configuration)

/**
 * Requests and limits of what was tuned. What a trial held beside that was not chosen, and says
 * nothing of the user's own.
 */
function resourceValues(containerPath: Path, serving: Serving): [Path, Plain][] {
  const { configuration, held } = serving
  const tuned = {
    ...('cpuCores' in configuration && held.cpuCores !== undefined
      ? { cpu: cpuQuantity(held.cpuCores) }
      : {}),
    ...('memoryMiB' in configuration && held.memoryMiB !== undefined
      ? { memory: memoryQuantity(held.memoryMiB) }
      : {}),
  }
  const gpu = specGpus(serving.resources, serving.gpuScheme, serving.dra)
  if (tunesGpu(serving)) refuseClaim(gpu, 'a patch writes')
  const limits = { ...tuned, ...(tunesGpu(serving) ? gpu.limits : {}) }
  return [
    ...(Object.keys(tuned).length > 0
      ? [[[...containerPath, 'resources', 'requests'], tuned] as [Path, Plain]]
      : []),
    ...(Object.keys(limits).length > 0
      ? [[[...containerPath, 'resources', 'limits'], limits] as [Path, Plain]]
      : []),
  ]
}

function containerOf(
  { object, title }: Place,
  podPath: Path,
  { container, file }: PatchOptions,
): Path {
  const list = get(object, [...podPath, 'containers'])
  if (!Array.isArray(list)) {
    if (get(object, [...podPath, 'model']) !== undefined) return [...podPath, 'model']
    throw new SpecError(`${title} in ${file} has no containers`, 'give a whole manifest')
  }
  const names = list.map((c) => String(get(c, ['name'])))
  const index =
    container === undefined
      ? names.length === 1
        ? 0
        : names.indexOf('kserve-container')
      : names.indexOf(container)
  if (index >= 0) return [...podPath, 'containers', index]
  const problem =
    container === undefined ? 'has several containers' : `has no container ${container}`
  throw new SpecError(
    `${title} in ${file} ${problem}: ${names.join(', ')}`,
    'name the one to tune with --container',
  )
}

/**
 * Tuned variables: changed where they stand. Added where they are missing if this server reads
 * them: the experiment's own command does, of other containers than the built-in predictor's nobody
 * knows.
 */
function environmentValues(
  { object }: Place,
  container: Path,
  serving: Serving,
): { readonly values: [Path, Plain][]; readonly unplaced: readonly string[] } {
  const present = get(object, [...container, 'env'])
  const list = Array.isArray(present) ? present : []
  const reads = serving.deployed.server !== 'builtin' || isBuiltin(get(object, container))
  const values: [Path, Plain][] = []
  const added: Plain[] = []
  const unplaced: string[] = []
  const { env = {}, tunedEnv = [] } = serving.container
  for (const name of tunedEnv) {
    const value = env[name]
    if (value === undefined) continue
    const index = list.findIndex((e) => get(e, ['name']) === name)
    if (index >= 0 && get(list[index], ['valueFrom']) !== undefined)
      unplaced.push(`${name} = ${value}: the manifest takes it from elsewhere (valueFrom)`)
    else if (index >= 0) values.push([[...container, 'env', index, 'value'], value])
    else if (reads) added.push({ name, value })
    else
      unplaced.push(
        `${name} = ${value}: this container is not the built-in predictor, which was measured`,
      )
  }
  if (added.length === 0) return { values, unplaced }
  if (list.length === 0) return { values: [...values, [[...container, 'env'], added]], unplaced }
  return {
    values: [
      ...values,
      ...added.map((entry, i): [Path, Plain] => [[...container, 'env', list.length + i], entry]),
    ],
    unplaced,
  }
}

/** By its image, its command, or the variables that only it has. */
function isBuiltin(container: Plain | undefined): boolean {
  const words = ['command', 'args'].flatMap((field) => {
    const list = get(container, [field])
    return Array.isArray(list) ? list.map(String) : []
  })
  const env = get(container, ['env'])
  const names = Array.isArray(env) ? env.map((e) => String(get(e, ['name']))) : []
  return (
    /(^|\/)tune(-predictor)?(:|@|$)/.test(String(get(container, ['image']))) ||
    words.includes('predictor') ||
    (names.includes('MODEL') && names.includes('ENGINE'))
  )
}

/** Arguments of the form --name=value that are there with another value. */
function argumentValues({ object }: Place, container: Path, serving: Serving): [Path, Plain][] {
  const present = get(object, [...container, 'args'])
  if (!Array.isArray(present)) return []
  return (serving.container.tunedArgs ?? []).flatMap((arg): [Path, Plain][] => {
    const flag = /^(--?[^=]+)=/.exec(arg)?.[1]
    const index =
      flag === undefined ? -1 : present.findIndex((old) => String(old).startsWith(`${flag}=`))
    return index >= 0 ? [[[...container, 'args', index], arg]] : []
  })
}

interface GpuValues {
  readonly values: [Path, Plain][]
  readonly unplaced: readonly string[]
}

/**
 * What finds the GPU, as trials had it: scheduler, annotations, tolerations, nodes. What the user
 * has of it otherwise stays, and is told.
 */
function gpuValues(place: Place, podPath: Path, serving: Serving): GpuValues {
  const gpu = specGpus(serving.resources, serving.gpuScheme, serving.dra)
  const { object } = place
  const ofPod = podPath.at(-1) === 'predictor' ? podPath : [...podPath.slice(0, -1), 'metadata']
  const tolerations = get(object, [...podPath, 'tolerations'])
  const tolerated = Array.isArray(tolerations) ? tolerations : []
  const missing = gpuTolerations(gpu).filter(
    ({ key }) => !tolerated.some((one) => [key, undefined].includes(get(one, ['key']) as string)),
  )
  const scheduler = get(object, [...podPath, 'schedulerName'])
  const nodes = nodeValues(place, podPath, serving, gpu)
  const values: [Path, Plain][] = Object.entries(gpu.annotations).map(([name, value]) => [
    [...ofPod, 'annotations', name],
    value,
  ])
  if (gpu.schedulerName !== undefined && scheduler === undefined)
    values.push([[...podPath, 'schedulerName'], gpu.schedulerName])
  if (tolerated.length === 0 && missing.length > 0)
    values.push([[...podPath, 'tolerations'], missing])
  else
    values.push(
      ...missing.map((one, i): [Path, Plain] => [
        [...podPath, 'tolerations', tolerated.length + i],
        one,
      ]),
    )
  const instance = instanceValues(place, podPath, serving)
  const unplaced = [...nodes.unplaced, ...instance.unplaced]
  if (gpu.schedulerName !== undefined && scheduler !== undefined && scheduler !== gpu.schedulerName)
    unplaced.push(
      `schedulerName = ${gpu.schedulerName}: the manifest has ${scheduler}, and ${gpu.schedulerName} gives the share of the GPU`,
    )
  return { values: [...values, ...instance.values, ...nodes.values], unplaced }
}

/** The nodes that the price was for, where the manifest does not name others. */
function instanceValues({ object }: Place, podPath: Path, serving: Serving): GpuValues {
  const [bought] = Object.entries(nodesBought(serving))
  if (bought === undefined) return { values: [], unplaced: [] }
  const [label, type] = bought
  const path = [...podPath, 'nodeSelector', label]
  const present = get(object, path)
  if (present === undefined || present === type) return { values: [[path, type]], unplaced: [] }
  return {
    values: [],
    unplaced: [
      `nodeSelector ${label} = ${type}, which was paid for: the manifest has ${String(present)}`,
    ],
  }
}

/**
 * Which nodes: by the user's own nodeSelector where that names the GPU product, else by affinity
 * where there is none.
 */
function nodeValues(
  { object }: Place,
  podPath: Path,
  { resources }: Serving,
  { requirements }: GpuSelection,
): GpuValues {
  const key = 'nvidia.com/gpu.product'
  const selected = get(object, [...podPath, 'nodeSelector', key])
  if (selected !== undefined && resources.gpu) {
    const fitting = productsOf(resources.gpu)
    const fits = fitting.some((p) => String(selected).startsWith(p))
    return { values: fits ? [] : [[[...podPath, 'nodeSelector', key], fitting[0]!]], unplaced: [] }
  }
  if (requirements.length === 0) return { values: [], unplaced: [] }
  const wanted = JSON.parse(JSON.stringify(requirements)) as Plain[]
  const path = [...podPath, 'affinity', 'nodeAffinity']
  const present = get(object, path)
  if (present === undefined)
    return {
      values: [
        [
          path,
          {
            requiredDuringSchedulingIgnoredDuringExecution: {
              nodeSelectorTerms: [{ matchExpressions: wanted }],
            },
          },
        ],
      ],
      unplaced: [],
    }
  const terms = get(present, [
    'requiredDuringSchedulingIgnoredDuringExecution',
    'nodeSelectorTerms',
  ])
  const asks = (term: Plain) => {
    const expressions = get(term, ['matchExpressions'])
    return (
      Array.isArray(expressions) &&
      wanted.every((one) => expressions.some((other) => isDeepStrictEqual(other, one)))
    )
  }
  if (Array.isArray(terms) && terms.length > 0 && terms.every(asks))
    return { values: [], unplaced: [] }
  const words = requirements.map(
    ({ key, operator, values }) => `${key} ${operator}${values ? ` (${values.join(', ')})` : ''}`,
  )
  return {
    values: [],
    unplaced: [
      `nodes with a ${resources.gpu} = ${words.join(' and ')}: the manifest has a nodeAffinity of its own`,
    ],
  }
}

function get(object: Plain | undefined, path: Path): Plain | undefined {
  return path.reduce<Plain | undefined>((inner, key) => {
    if (typeof inner !== 'object' || inner === null) return undefined
    return (inner as { readonly [key: string]: Plain })[key]
  }, object)
}

/** Whether everything of `value` is in `present` already. */
function includes(present: Plain | undefined, value: Plain): boolean {
  if (typeof value !== 'object' || value === null || Array.isArray(value))
    return isDeepStrictEqual(present, value)
  return Object.entries(value).every(([key, inner]) => includes(get(present, [key]), inner))
}
