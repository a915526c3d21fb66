/** Restricts a search space to the GPUs of a cluster, and finds how pods request them. */
import type { SearchSpace } from '../../search/types.ts'
import type { Api } from '../../trials/launchers/kubernetes/api/api.ts'
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
import type { Experiment } from '../config/types.ts'
import { exitCodes, UserError } from '../exit-codes.ts'

/** The restricted space, and facts about the cluster's GPUs for the launcher. */
interface ClusterSpace {
  readonly space: SearchSpace
  readonly gpuScheme?: GpuScheme
  readonly availableGpus?: readonly ClusterGpu[]
  /** GPUs of the cluster, if the user sets the scheme. */
  readonly nodeGpus?: readonly ClusterGpu[]
  readonly dra?: DraOptions
  readonly draVersion?: DraVersion
  readonly notices: readonly string[]
}

/**
 * Restricts the space to GPU models of the nodes, and finds how they are shared. A scheme that the
 * user sets is not checked. Neither is a cluster without visible GPUs, which may add nodes.
 * @throws UserError if the cluster has none of the models, or lacks the requested DRA
 */
export async function fitToCluster(api: Api, experiment: Experiment): Promise<ClusterSpace> {
  const { space, kubernetes = {}, devicesUsed } = experiment
  const { gpuScheme, dra } = kubernetes
  const gpu = space.parameters.find(({ name }) => name === 'gpu')
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
  if (gpuScheme !== undefined && requestsMebibytes(gpuScheme))
    return { space, gpuScheme, nodeGpus: (await inspectCluster(api)).gpus, notices: [] }
  if (gpuScheme !== undefined || devicesUsed !== 'gpu' || gpu?.kind !== 'categorical')
    return { space, gpuScheme, notices: [] }
  const facts = await inspectCluster(api)
  if (facts.gpus.length === 0) return { space, notices: [] }
  const values = gpu.values.filter(
    (name) =>
      name === 'none' || facts.gpus.some(({ product }) => matchesProduct(product, String(name))),
  )
  const nodeModels = [...new Set(facts.gpus.map(({ product, gpu }) => gpu ?? product))].join(', ')
  if (values.length === 0) {
    const hint =
      'tune doctor --backend kubernetes lists them; set gpuScheme to keep the search space as written'
    throw new UserError(
      `the cluster has none of ${gpu.values.join(', ')}: it has ${nodeModels}`,
      hint,
      exitCodes.usage,
    )
  }
  const availableGpus = facts.gpus.filter(({ product }) =>
    values.some((name) => matchesProduct(product, String(name))),
  )
  const missing = gpu.values.filter((name) => !values.includes(name))
  const parameters = space.parameters.map((parameter) =>
    parameter === gpu ? { ...gpu, values } : parameter,
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
      ...(missing.length > 0
        ? [
            `Left out of the search, because the cluster does not have them: ${missing.join(', ')} (it has ${nodeModels})`,
          ]
        : []),
    ],
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

/** 'GPU scheme nvidia, from the setup of the nodes', or the scheme of each model. */
function describeSchemes(availableGpus: ClusterFacts['gpus']): string {
  const schemes = [...new Set(availableGpus.map(({ scheme }) => scheme))]
  if (schemes.length === 1) return `GPU scheme ${schemes[0]}, from the setup of the nodes`
  const models = schemes.map(
    (scheme) =>
      `${scheme} (${[...new Set(availableGpus.filter((o) => o.scheme === scheme).map((o) => o.gpu ?? o.product))].join(', ')})`,
  )
  return `GPU schemes, from the setup of the nodes: ${models.join(', ')}; each trial uses the scheme that fits its share best`
}
