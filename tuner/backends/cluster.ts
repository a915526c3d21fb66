/** Trials on a cluster: the launcher, and load from inside it or from here. */
import { join } from 'node:path'
import type { Measurement, ProtocolName, ProtocolOptions } from '../../profiler/index.ts'
import { defaultValue } from '../../search/space.ts'
import { type Api, connect } from '../../trials/launchers/kubernetes/api.ts'
import {
  createKubernetesLauncher,
  isPodPredictor,
  type KubernetesLauncher,
  type PodPredictor,
} from '../../trials/launchers/kubernetes/kubernetes-launcher.ts'
import { loadJobOf, runLoad } from '../../trials/launchers/kubernetes/load-run.ts'
import { payloadFolder, payloadMap } from '../../trials/launchers/kubernetes/payload-map.ts'
import { usageSourceOf } from '../../trials/launchers/kubernetes/pod-usage.ts'
import { dryRun } from '../../trials/launchers/kubernetes/server-dry-run.ts'
import { defaultStartPatience } from '../../trials/launchers/kubernetes/start.ts'
import { createConfigMap } from '../../trials/launchers/kubernetes/trial-objects.ts'
import { type CommandTemplate, defaultReadyTimeoutS } from '../../trials/launchers/template.ts'
import { InfeasibleError, LaunchError, type Predictor } from '../../trials/types.ts'
import { exitCodes, UserError } from '../exit-codes.ts'
import type { LoadOrigin } from '../experiment/names.ts'
import type { Experiment } from '../experiment/types.ts'
import { fitToCluster } from './cluster-space.ts'
import { decodeLine, encodeTask, type LoadTask } from './load-task.ts'

export interface ClusterBackend {
  readonly launcher: KubernetesLauncher
  /** Its space holds what the cluster offers. */
  readonly experiment: Experiment
  readonly loadFrom: LoadOrigin
  readonly notices: readonly string[]
  /** Measures from inside the cluster. */
  measure(predictor: Predictor, task: LoadWork, options: LoadHooks, signal: AbortSignal): Promise<Measurement>
  close(): Promise<void>
}

interface InCluster extends LoadHooks {
  readonly launcher: KubernetesLauncher
  readonly predictor: PodPredictor
  readonly task: string
  readonly deadlineS: number
}

type LoadWork = Pick<LoadTask, 'seed' | 'measure'>
interface LoadHooks {
  readonly number: number
  readonly onStep: (point: Measurement['points'][number], phase: string) => void
}

/** An image of this project whose entry point is `tune`; deploy/README.md says how it is built. */
export const defaultImage = 'tune-predictor:0.1.0'
const defaultPort = 8000

/** Time for a pod from being scheduled to its container running, s: image pull, volumes. */
const startS = defaultStartPatience.startMs / 1000
/** The cluster ends a load Job itself after its start and three times its time under load, which repeated windows may take, and a minute. */
const loadDeadlineS = (loadSeconds: number) => Math.ceil(startS + 3 * loadSeconds + 60)
const readyTimeoutOf = ({ readyTimeoutS = defaultReadyTimeoutS }: { readonly readyTimeoutS?: number }) => Math.ceil(readyTimeoutS)
/** Stands for the owner in objects that are checked and not made. */
const checkOwner = { name: 'tune-check', uid: 'check' }

/**
 * Connects, and has the API server check every object that trials will make, before the first of them.
 * @throws UserError for what cannot run on a cluster; ApiError, LaunchError for what the cluster refuses
 */
export async function openCluster(experiment: Experiment, experimentId: string, protocol: ProtocolChoice): Promise<ClusterBackend> {
  const { predictor, kubernetes = {}, load } = experiment
  if (predictor.kind === 'url')
    throw new UserError('a url predictor runs already: no pod can be made of it', 'use --backend local', exitCodes.usage)
  if (predictor.kind === 'command' && kubernetes.pod === undefined) {
    throw new UserError(
      'on Kubernetes a predictor comes from an image',
      'say kubernetes: {pod: {spec: {containers: [...]}}}',
      exitCodes.usage,
    )
  }
  const loadFrom = kubernetes.loadFrom ?? 'cluster'
  const files = loadFrom === 'cluster' && load.payload.kind !== 'generated' ? await payloadMap(experimentId, load.payload) : undefined
  const api = await connect(kubernetes.namespace)
  const { cut, notices, ...gpus } = await fitToCluster(api, experiment)
  const usageSource = await usageSourceOf(api)
  const image = kubernetes.image ?? defaultImage
  const launcher = createKubernetesLauncher({
    api,
    experimentId,
    template: predictor,
    own: kubernetes.pod === undefined ? undefined : { pod: kubernetes.pod, container: kubernetes.container! },
    image,
    port: kubernetes.port ?? defaultPort,
    parameters: experiment.space.parameters,
    protocol: protocol.protocol,
    payload: load.payload,
    runDirectory: join(experiment.dbPath, '..', experimentId),
    reach: loadFrom === 'here' || process.env.KUBERNETES_SERVICE_HOST !== undefined ? 'direct' : 'port-forward',
    ...gpus,
    usageSource,
    podDeadlineS: startS + readyTimeoutOf(predictor) + loadDeadlineS(Math.max(load.trialSeconds, load.confirmSeconds)),
    ownGpus: experiment.own.gpus,
  })
  const imagePullSecrets = (kubernetes.pod?.spec as { imagePullSecrets?: unknown } | undefined)?.imagePullSecrets
  const payload = files && { configMap: files.name, folder: payloadFolder }
  let filesMade = false
  const close = () => launcher.close()
  try {
    const job = loadFrom === 'cluster' ? { experimentId, trial: 0, image, imagePullSecrets, task: '{}', payload, deadlineS: 60 } : undefined
    await checkObjects(api, cut, launcher, job)
    if (files) await dryRun(api, `/api/v1/namespaces/${api.namespace}/configmaps`, files.body(checkOwner))
  } catch (error) {
    await close()
    throw error
  }
  return {
    launcher,
    loadFrom,
    experiment: cut,
    notices: [
      ...notices,
      ...(usageSource ? [] : [usageUnknown]),
      `Cluster: ${api.server}, namespace ${api.namespace}; ${loadWords[loadFrom]}`,
    ],
    measure: async (predictor, work, hooks, signal) => {
      if (!isPodPredictor(predictor)) throw new TypeError('not a predictor of the cluster')
      const { ip, port } = predictor.pod
      const task = encodeTask({
        ...work,
        url: `http://${ip.includes(':') ? `[${ip}]` : ip}:${port}`,
        model: (experiment.predictor as CommandTemplate).model,
        protocol: protocol.name,
        protocolOptions: protocol.options,
        payload: files?.source ?? load.payload,
        slo: experiment.slo,
      })
      const { measure } = work
      const deadlineS = loadDeadlineS(measure.kind === 'confirm' ? measure.seconds : load.trialSeconds)
      return measureInCluster({ ...hooks, launcher, predictor, task, deadlineS }, signal)
    },
    close,
  }

  async function measureInCluster(
    { launcher, predictor, task, deadlineS, number, onStep }: InCluster,
    signal: AbortSignal,
  ): Promise<Measurement> {
    let last: ReturnType<typeof decodeLine> | undefined
    const neighbours = new Set<number>()
    const look = () => {
      for (const other of launcher.neighbours(predictor.pod.node, number)) neighbours.add(other)
    }
    const unlisten = launcher.watch.listen(look)
    look()
    const other: string[] = []
    let loaded = false
    const onLine = (line: string) => {
      if (!line.startsWith('{')) {
        other.push(line)
        return false
      }
      last = decodeLine(line)
      if ('step' in last) {
        if (!loaded) predictor.restartUsage?.()
        loaded = true
        onStep(last.step, last.phase)
      }
      return 'measurement' in last || 'error' in last
    }
    try {
      const owner = await launcher.owner(signal)
      if (files && !filesMade) {
        await createConfigMap(api, files.body(owner), signal)
        filesMade = true
      }
      const options = {
        api,
        watch: launcher.watch,
        experimentId,
        trial: number,
        owner,
        image,
        imagePullSecrets,
        task,
        payload,
        deadlineS,
        onLine,
      }
      const code = await runLoad(options, signal)
      if (last && 'measurement' in last) return withCaveats(last.measurement, neighbours)
      const said = last && 'error' in last ? last.error.message : other.slice(-3).join(' | ') || 'it printed nothing'
      throw new LaunchError(`the load generator${code === undefined ? '' : `'s pod ended with exit code ${code}`}: ${said}`)
    } finally {
      unlisten()
    }
  }
}

/**
 * Has the API server check the objects that trials are made of, one pod for each GPU model of the space, so that a typo costs no trial.
 * A model that the cluster's scheme cannot give is left to its trials, which are infeasible.
 */
async function checkObjects(
  api: Api,
  { space }: Experiment,
  launcher: KubernetesLauncher,
  job: Omit<Parameters<typeof loadJobOf>[0], 'owner'> | undefined,
): Promise<void> {
  const middle = Object.fromEntries(space.parameters.map((parameter) => [parameter.name, defaultValue(parameter)]))
  const gpu = space.parameters.find(({ name }) => name === 'gpu')
  const unknown = new Set<string>()
  for (const model of gpu?.kind === 'categorical' ? gpu.values : [undefined]) {
    try {
      const made = launcher.objectsFor({ ...middle, ...(model !== undefined && { gpu: model }) }, 0, checkOwner, 'tune-check')
      const { pod, claimTemplate } = made
      for (const field of await dryRun(api, `/api/v1/namespaces/${api.namespace}/pods`, pod)) unknown.add(`pod ${field}`)
      if (claimTemplate === undefined) continue
      const path = `/apis/${claimTemplate.apiVersion}/namespaces/${api.namespace}/resourceclaimtemplates`
      for (const field of await dryRun(api, path, claimTemplate)) unknown.add(`resource claim template ${field}`)
    } catch (error) {
      if (!(error instanceof InfeasibleError)) throw error
    }
  }
  if (job) {
    const fields = await dryRun(
      api,
      `/apis/batch/v1/namespaces/${api.namespace}/jobs`,
      loadJobOf({ ...job, owner: checkOwner }, 'tune-check-load'),
    )
    for (const field of fields) unknown.add(`job ${field}`)
  }
  if (unknown.size === 0) return
  throw new UserError(`the API server does not know ${[...unknown].join(', ')}`, 'correct kubernetes.pod', exitCodes.usage)
}

export interface ProtocolChoice {
  readonly name: ProtocolName
  readonly options: ProtocolOptions
  readonly protocol: ReturnType<typeof import('../../profiler/index.ts').protocolFor>
}

const usageUnknown = 'CPU and memory that trials use stay unknown: the cluster has no metrics.k8s.io, and nodes/proxy is not allowed'

const loadWords: Readonly<Record<LoadOrigin, string>> = {
  cluster: 'load from a Job inside the cluster',
  'port-forward': 'load from here through the API server: latencies hold its detour, and rates its limits',
  here: 'load from here to the pods’ addresses',
}

function withCaveats(measurement: Measurement, neighbours: ReadonlySet<number>): Measurement {
  if (neighbours.size === 0) return measurement
  const shared = `trial ${[...neighbours].sort((a, b) => a - b).join(', ')} ran on the same node meanwhile`
  return { ...measurement, caveats: [...measurement.caveats, shared] }
}
