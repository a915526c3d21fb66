/**
 * Loads predictors from inside the cluster: a Job runs `tune load` next to the predictor and prints
 * the measurement.
 */
import { computeMinSpanS } from '../../profiler/index.ts'
import type { Measurement } from '../../profiler/model/measurement.ts'
import type { KubernetesLauncher } from '../../trials/launchers/kubernetes/kubernetes-launcher.ts'
import { type LoadRunOptions, runLoad } from '../../trials/launchers/kubernetes/launch/load-run.ts'
import {
  isPodPredictor,
  type PodPredictor,
} from '../../trials/launchers/kubernetes/launch/pod-launch.ts'
import { createConfigMap } from '../../trials/launchers/kubernetes/launch/trial-objects.ts'
import type { PayloadMap } from '../../trials/launchers/kubernetes/manifests/payload-map.ts'
import { InfeasibleError, LaunchError } from '../../trials/types.ts'
import type { Experiment } from '../config/types.ts'
import type { Backend, MeasureOptions } from './backend.ts'
import { decodeLine, encodeTask, type LoadLine } from './load-task.ts'
import { createLoadWork, type LoadWork } from './load-work.ts'
import { createProtocol } from './predictor-protocol.ts'
import { enforceBounds } from './server-metrics.ts'

/** Options that all Jobs of an experiment share. */
export type JobBase = Pick<
  LoadRunOptions,
  'experimentId' | 'image' | 'imagePullSecrets' | 'overlay' | 'payload'
>

interface ClusterLoadOptions {
  readonly job: JobBase
  /** The payload's files, if any. */
  readonly files?: PayloadMap
  /** Deadline of the Job, by the load time. */
  readonly deadlineS: (loadSeconds: number) => number
}

export function createClusterLoad(
  experiment: Experiment,
  launcher: KubernetesLauncher,
  options: ClusterLoadOptions,
): Pick<Backend, 'measure'> {
  const { files } = options
  let filesMade: Promise<void> | undefined
  const makeFiles = (
    owner: Parameters<PayloadMap['body']>[0],
    signal: AbortSignal,
  ): Promise<void> => {
    if (files === undefined) return Promise.resolve()
    filesMade ??= createConfigMap(launcher.api, files.body(owner), signal).catch((error) => {
      filesMade = undefined
      throw error
    })
    return filesMade
  }
  return {
    measure: async (predictor, task, { number, onStep, onWaiting }, signal) => {
      if (!isPodPredictor(predictor)) throw new TypeError('not a predictor of the cluster')
      const work = createLoadWork(experiment, task, number)
      const lineReader = createLineReader(predictor, onStep)
      const neighbourWatch = watchNeighbours(launcher, predictor, number)
      try {
        const owner = await launcher.owner(signal)
        await makeFiles(owner, signal)
        const code = await runLoad(
          {
            ...options.job,
            api: launcher.api,
            watch: launcher.watch,
            explainLoss: launcher.explainLoss,
            trial: number,
            owner,
            task: encodeTask(createLoadTask(experiment, predictor, work, files)),
            deadlineS: options.deadlineS(estimateLoadSeconds(work, experiment)),
            onLine: lineReader.onLine,
            onWaiting,
          },
          signal,
        )
        return neighbourWatch.noteIn(
          enforceBounds(lineReader.measurement(code), task.kind, predictor.logPath),
        )
      } finally {
        neighbourWatch.end()
      }
    },
  }
}

const estimateLoadSeconds = ({ measure }: LoadWork, { load }: Experiment): number =>
  measure.kind === 'confirm' ? computeMinSpanS(measure.seconds) : load.trialSeconds

function createLoadTask(
  experiment: Experiment,
  { pod: { urls, serviceUrl }, answers }: PodPredictor,
  work: LoadWork,
  files: PayloadMap | undefined,
) {
  const { name, options } = createProtocol(experiment)
  const { predictor, load, slo } = experiment
  const [directUrl] = urls as [string]
  return {
    ...work,
    url: serviceUrl ?? directUrl,
    ...(serviceUrl !== undefined && { throughService: true as const }),
    ...(serviceUrl === undefined && urls.length > 1 && { replicaUrls: urls }),
    model: predictor.model,
    protocol: name,
    protocolOptions: options,
    payload: files?.source ?? load.payload,
    slo,
    answers: answers && { spec: answers.spec, bodies: answers.bodies },
    metrics: {
      asked: experiment.metrics,
      arrivals: load.arrivals,
      seed: work.seed,
      directUrl: serviceUrl && directUrl,
    },
  }
}

/** Parses the lines of the Job's pod: load steps, then the measurement. */
function createLineReader(predictor: PodPredictor, onStep: MeasureOptions['onStep']) {
  let last: LoadLine | undefined
  let loaded = false
  const other: string[] = []
  return {
    onLine: (line: string): boolean => {
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
      return !('step' in last)
    },
    /** @throws LaunchError with the last output of the pod if it measured nothing */
    measurement: (code: number | undefined): Measurement => {
      if (last && 'measurement' in last) return last.measurement
      if (last && 'answersDiffer' in last)
        throw new InfeasibleError(
          'answers-differ',
          `under load: ${last.answersDiffer}`,
          predictor.logPath,
        )
      if (last && 'error' in last && last.error.final !== undefined)
        throw new LaunchError(
          last.error.message,
          last.error.hint,
          predictor.logPath,
          last.error.final,
        )
      const reason =
        last && 'error' in last
          ? last.error.message
          : other.slice(-3).join(' | ') || 'it printed nothing'
      throw new LaunchError(
        `the load generator${code === undefined ? '' : `'s pod ended with exit code ${code}`}: ${reason}`,
      )
    },
  }
}

/** Records which other trials ran on the predictor's nodes during the measurement. */
function watchNeighbours(launcher: KubernetesLauncher, { pod }: PodPredictor, number: number) {
  const neighbourTrials = new Set<number>()
  const look = () => {
    for (const node of pod.nodes)
      for (const other of launcher.neighbours(node, number)) neighbourTrials.add(other)
  }
  const end = launcher.watch.listen(look)
  look()
  return {
    end,
    noteIn: (measurement: Measurement): Measurement => {
      if (neighbourTrials.size === 0) return measurement
      const caveat = `trial ${[...neighbourTrials].sort((a, b) => a - b).join(', ')} ran on the same node at the same time`
      return { ...measurement, caveats: [...measurement.caveats, caveat] }
    },
  }
}
