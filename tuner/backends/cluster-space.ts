/**
 * Restricts the search space to GPU models that the cluster has, and detects how its pods request
 * GPUs.
 */
import type { V1Node } from '@kubernetes/client-node'
import type { Configuration, Parameter, SearchSpace } from '../../search/types.ts'
import { type Api, ApiError } from '../../trials/launchers/kubernetes/api/api.ts'
import {
  type ClusterFacts,
  type ClusterGpu,
  inspectCluster,
} from '../../trials/launchers/kubernetes/gpus/cluster-facts.ts'
import {
  type DraOptions,
  type DraVersion,
  findDraVersion,
} from '../../trials/launchers/kubernetes/gpus/dra.ts'
import { matchesProduct } from '../../trials/launchers/kubernetes/gpus/gpu-names.ts'
import {
  type GpuScheme,
  requestsMebibytes,
} from '../../trials/launchers/kubernetes/gpus/gpu-selection.ts'
import { sumAllocatable } from '../../trials/launchers/kubernetes/scheduling/node-fit.ts'
import { canAddNodes } from '../../trials/launchers/kubernetes/scheduling/scale-up.ts'
import { nameStageParameter, sumOverStages } from '../../trials/pipeline/stage-configuration.ts'
import { parseResources } from '../../trials/resources.ts'
import type { Experiment } from '../config/types.ts'
import { exitCodes, UserError } from '../exit-codes.ts'

/** The restricted space, and facts about the cluster's GPUs for the launcher. */
interface ClusterSpace {
  readonly space: SearchSpace
  /** How pods request GPUs. Absent: the launcher chooses for each configuration by `availableGpus`. */
  readonly gpuScheme?: GpuScheme
  /** GPUs of the nodes whose model is in the search space; absent if the user sets the scheme. */
  readonly availableGpus?: readonly ClusterGpu[]
  /** All GPUs of the nodes, for schemes that request memory: what they report caps a request. */
  readonly nodeGpus?: readonly ClusterGpu[]
  readonly dra?: DraOptions
  /** Version of resource.k8s.io; absent if no GPU is requested by DRA. */
  readonly draVersion?: DraVersion
  readonly notices: readonly string[]
}

/**
 * Removes GPU models that no node has, and detects the scheme by which pods request the others. If
 * the user sets the scheme, the space stays as written, and only the scheme `dra` is checked. A
 * cluster without visible GPUs does not restrict the space either: it may add nodes.
 * @throws UserError if no node has any of the GPU models, or if the scheme is `dra` and the cluster
 * does not serve it
 */
export async function fitToCluster(api: Api, experiment: Experiment): Promise<ClusterSpace> {
  const { space, kubernetes = {}, devicesUsed } = experiment
  const { gpuScheme, dra } = kubernetes
  const gpu = space.parameters.find(({ name }) => name === 'gpu')
  // Claims need the version of the API, and their memory is capped by that of the nodes' GPUs.
  if (gpuScheme === 'dra') {
    const draVersion = await requireDra(api)
    return {
      space,
      gpuScheme,
      dra,
      draVersion,
      nodeGpus: (await inspectCluster(api)).gpus,
      notices: [],
    }
  }
  // These schemes request MiB, capped by the memory that the nodes report.
  if (gpuScheme !== undefined && requestsMebibytes(gpuScheme))
    return { space, gpuScheme, nodeGpus: (await inspectCluster(api)).gpus, notices: [] }
  // Nothing to detect: the user sets the scheme, or the GPU model is not tuned.
  if (gpuScheme !== undefined || devicesUsed !== 'gpu' || gpu?.kind !== 'categorical')
    return { space, gpuScheme, notices: [] }
  const facts = await inspectCluster(api)
  if (facts.gpus.length === 0) return { space, notices: [] }
  const availableModels = gpu.values.filter(
    (name) =>
      name === 'none' || facts.gpus.some(({ product }) => matchesProduct(product, String(name))),
  )
  const nodeModels = [...new Set(facts.gpus.map(({ product, gpu }) => gpu ?? product))].join(', ')
  if (availableModels.length === 0) {
    const hint =
      'tune doctor --backend kubernetes lists the GPUs of the cluster; set gpuScheme to keep the search space as written'
    throw new UserError(
      `the cluster has none of ${gpu.values.join(', ')}: it has ${nodeModels}`,
      hint,
      exitCodes.usage,
    )
  }
  const availableGpus = facts.gpus.filter(({ product }) =>
    availableModels.some((name) => matchesProduct(product, String(name))),
  )
  const missingModels = gpu.values.filter((name) => !availableModels.includes(name))
  const parameters = space.parameters.map((parameter) =>
    parameter === gpu ? { ...gpu, values: availableModels } : parameter,
  )
  return {
    space: { ...space, parameters },
    availableGpus,
    dra,
    draVersion: availableGpus.some(({ scheme }) => scheme === 'dra')
      ? facts.dra?.version
      : undefined,
    notices: [
      describeSchemes(availableGpus),
      ...(facts.migFaults ?? []),
      ...(missingModels.length > 0
        ? [
            `GPU models removed from the search, because no node has them: ${missingModels.join(', ')} (the nodes have ${nodeModels})`,
          ]
        : []),
    ],
  }
}

/**
 * Restricts the space of a pipeline to the GPUs that its stages can have, and excludes
 * configurations whose stages need more cores or memory together than all nodes have. A cluster
 * whose nodes cannot be read, or that adds nodes, excludes none.
 * @param spaces the restricted spaces of the stages, by name
 */
export async function fitStagesToCluster(
  api: Api,
  { space, kubernetes, own }: Experiment,
  spaces: ReadonlyMap<string, SearchSpace>,
): Promise<SearchSpace> {
  const restricted = new Map(
    [...spaces].flatMap(([stage, { parameters }]) =>
      parameters.map((parameter) => [nameStageParameter(stage, parameter.name), parameter]),
    ),
  )
  const parameters = space.parameters.map((parameter): Parameter => {
    const found = restricted.get(parameter.name)
    return parameter.kind === 'categorical' && found?.kind === 'categorical'
      ? { ...parameter, values: found.values }
      : parameter
  })
  const total = kubernetes?.scaleUpTimeoutMs === undefined ? await readFixedTotal(api) : undefined
  if (total === undefined) return { ...space, parameters }
  const fits = (configuration: Configuration): boolean => {
    const sumUp = (resource: 'cpuCores' | 'memoryMiB') =>
      sumOverStages(configuration, (one) =>
        resource in one ? parseResources(one, {}, own.gpus)[resource] : 0,
      )
    return sumUp('cpuCores') <= total.cpuCores && sumUp('memoryMiB') <= total.memoryMiB
  }
  const text = `all stages fit in the ${total.cpuCores} cores and ${Math.floor(total.memoryMiB / 1024)} GiB of the cluster`
  return { parameters, constraints: [...space.constraints, { text, holds: fits }] }
}

/** Resources of all nodes together; undefined if unknown, or if the cluster may add nodes. */
async function readFixedTotal(
  api: Api,
): Promise<{ readonly cpuCores: number; readonly memoryMiB: number } | undefined> {
  const signal = new AbortController().signal
  const nodes = await api
    .request<{ items: V1Node[] }>('GET', '/api/v1/nodes', { signal })
    .catch((error: unknown) => {
      if (error instanceof ApiError) return undefined
      throw error
    })
  if (nodes === undefined || nodes.items.length === 0 || (await canAddNodes(api, signal)))
    return undefined
  return {
    cpuCores: sumAllocatable(nodes.items, 'cpu'),
    memoryMiB: sumAllocatable(nodes.items, 'memory') / 2 ** 20,
  }
}

async function requireDra(api: Api): Promise<DraVersion> {
  const version = await findDraVersion(api)
  if (version) return version
  const hint =
    'it needs Kubernetes 1.32 or later with dynamic resource allocation, and a driver; tune doctor --backend kubernetes shows what the cluster has'
  throw new UserError(
    'gpuScheme dra: the cluster does not serve resource.k8s.io',
    hint,
    exitCodes.usage,
  )
}

/** 'GPU scheme nvidia, detected on the nodes', or the scheme of each model. */
function describeSchemes(availableGpus: ClusterFacts['gpus']): string {
  const schemes = [...new Set(availableGpus.map(({ scheme }) => scheme))]
  if (schemes.length === 1) return `GPU scheme ${schemes[0]}, detected on the nodes`
  const models = schemes.map(
    (scheme) =>
      `${scheme} (${[...new Set(availableGpus.filter((gpu) => gpu.scheme === scheme).map(({ gpu, product }) => gpu ?? product))].join(', ')})`,
  )
  return `GPU schemes, detected on the nodes: ${models.join(', ')}; each trial uses the scheme that fits its share best`
}
