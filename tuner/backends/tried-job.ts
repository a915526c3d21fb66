/**
 * A launcher that has a Job's pod run once before its first predictor: what keeps it from running
 * would spoil every trial after its launch.
 */
import type { KubernetesLauncher } from '../../trials/launchers/kubernetes/kubernetes-launcher.ts'
import { runLoad } from '../../trials/launchers/kubernetes/launch/load-run.ts'
import { LaunchError } from '../../trials/types.ts'
import type { JobBase } from './load-from-inside.ts'

/** From its start to its one line. */
const deadlineS = 15 * 60

export function withTriedJob(inner: KubernetesLauncher, job: JobBase): KubernetesLauncher {
  let tried: Promise<void> | undefined
  return {
    ...inner,
    launch: async (configuration, trialNumber, signal, onWaiting) => {
      tried ??= tryJob(inner, job, trialNumber, signal).catch((error: unknown) => {
        tried = undefined
        throw error
      })
      await tried
      return inner.launch(configuration, trialNumber, signal, onWaiting)
    },
  }
}

/** Of what a program said before it ended: the error that it names, else its last words. */
const tellingLine = (said: readonly string[]): string | undefined =>
  said.find((line) => /error/i.test(line)) ?? said.at(-1)

/**
 * Without the payload, whose ConfigMap is made for the first measurement. @throws LaunchError where
 * it does not run, or not `tune`
 */
async function tryJob(
  { api, watch, owner, explainLoss }: KubernetesLauncher,
  { payload: _, ...job }: JobBase,
  trial: number,
  signal: AbortSignal,
): Promise<void> {
  const said: string[] = []
  const onLine = (line: string): boolean => {
    said.push(line)
    return /^\d+\.\d+\.\d+/.test(line)
  }
  const code = await runLoad(
    { ...job, api, watch, explainLoss, trial, owner: await owner(signal), deadlineS, onLine },
    signal,
  )
  if (code === undefined || code === 0) return
  throw new LaunchError(
    `the load generator's pod ended with exit code ${code}: ${tellingLine(said) ?? 'it printed nothing'}`,
    `check that tune is the entry point of ${job.image} and that user 1000 can read it; set another user with kubernetes: {job: {spec: {securityContext: {runAsUser: N}}}}`,
    undefined,
    'experiment',
  )
}
