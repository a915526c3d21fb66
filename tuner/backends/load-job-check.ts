/**
 * Runs the pod of a load Job once before the first predictor, because a broken one would fail every
 * trial after its launch.
 */
import type { KubernetesLauncher } from '../../trials/launchers/kubernetes/kubernetes-launcher.ts'
import { runLoad } from '../../trials/launchers/kubernetes/launch/load-run.ts'
import { LaunchError } from '../../trials/types.ts'
import type { JobBase } from './cluster-load.ts'

/** Maximum time until the pod prints its version, s. */
const deadlineS = 15 * 60

export function addLoadJobCheck(inner: KubernetesLauncher, job: JobBase): KubernetesLauncher {
  let tried: Promise<void> | undefined
  return {
    ...inner,
    launch: async (configuration, trialNumber, signal, onWaiting) => {
      tried ??= runLoadJobOnce(inner, job, trialNumber, signal).catch((error: unknown) => {
        tried = undefined
        throw error
      })
      await tried
      return inner.launch(configuration, trialNumber, signal, onWaiting)
    },
  }
}

/** Finds the error line of a program's output, or its last line. */
const findErrorLine = (lines: readonly string[]): string | undefined =>
  lines.find((line) => /error/i.test(line)) ?? lines.at(-1)

/**
 * Runs without the payload, whose ConfigMap does not exist yet.
 * @throws LaunchError if the pod fails or does not run `tune`
 */
async function runLoadJobOnce(
  { api, watch, owner, explainLoss }: KubernetesLauncher,
  { payload: _, ...job }: JobBase,
  trial: number,
  signal: AbortSignal,
): Promise<void> {
  const lines: string[] = []
  const onLine = (line: string): boolean => {
    lines.push(line)
    // The version is the last line awaited: nodes report the end of a pod late.
    return /^\d+\.\d+\.\d+/.test(line)
  }
  const code = await runLoad(
    { ...job, api, watch, explainLoss, trial, owner: await owner(signal), deadlineS, onLine },
    signal,
  )
  // undefined: it printed its version.
  if (code === undefined || code === 0) return
  throw new LaunchError(
    `the load generator's pod ended with exit code ${code}: ${findErrorLine(lines) ?? 'it printed nothing'}`,
    `check that tune is the entry point of ${job.image} and that user 1000 can read it; set another user with kubernetes: {job: {spec: {securityContext: {runAsUser: N}}}}`,
    undefined,
    'experiment',
  )
}
