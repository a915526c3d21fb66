/**
 * What many trials at once cost: memory of the tuner's own process, and its requests to the API
 * server: npm run bench:cluster-many. `TRIALS` of them (default 100), all at once, through the
 * whole command against an API server of this process; their load is measured once, and told again
 * for the others.
 */
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import type { V1Job, V1Pod } from '@kubernetes/client-node'
import { FakeApiServer } from '../../trials/launchers/kubernetes/testing/fake-api-server.ts'
import { asked } from '../../trials/launchers/kubernetes/testing/rights.ts'
import { runLoadTask } from '../backends/load-task.ts'
import { asPod, serve } from '../backends/testing/served.ts'

const trials = Number(process.env.TRIALS ?? 100)
const startMs = 2_000
const folder = mkdtempSync(join(tmpdir(), 'tune-many-'))
const server = await serve('serve')
const fake = new FakeApiServer()
let most = 0
/** As a node that takes its time, so that all of them start at once. */
fake.kubelet = ({ metadata, spec }: V1Pod, set) => {
  most = Math.max(
    most,
    [...fake.objects.pods.values()].filter(
      ({ metadata: { labels } }) => labels?.['tune/role'] === 'predictor',
    ).length,
  )
  const placed = [{ type: 'PodScheduled', status: 'True' }]
  const statuses = (state: object) => [
    {
      name: spec!.containers[0]!.name,
      image: 'i',
      imageID: '',
      ready: true,
      restartCount: 0,
      state,
    },
  ]
  fake.say(metadata!.name!, 'Scheduled', 'Successfully assigned it to node n')
  setTimeout(
    () =>
      set({
        conditions: placed,
        containerStatuses: statuses({ waiting: { reason: 'ContainerCreating' } }),
      } as never),
    startMs / 4,
  )
  setTimeout(
    () =>
      set({
        phase: 'Running',
        podIP: '127.0.0.1',
        conditions: placed,
        containerStatuses: statuses({ running: {} }),
      } as never),
    startMs,
  )
}
let told: Promise<string[]> | undefined
fake.jobWork = async ({ spec }: V1Job, print) => {
  const task = spec!.template.spec!.containers[0]!.env?.find(
    ({ name }) => name === 'TUNE_LOAD',
  )?.value
  if (task === undefined) {
    print('0.1.0\n')
    return 0
  }
  told ??= (async () => {
    const lines: string[] = []
    await runLoadTask(task, (line) => lines.push(line), new AbortController().signal)
    return lines
  })()
  for (const line of await told) {
    print(line)
    await sleep(100)
  }
  return 0
}
await fake.start()
const { config } = await fake.api()
writeFileSync(join(folder, 'kubeconfig'), config.exportConfig())
const container = { name: 'server', image: 'i', ports: [{ containerPort: server.port }] }
writeFileSync(
  join(folder, 'experiment.yaml'),
  JSON.stringify({
    model: 'm',
    slo: 'p75<100ms',
    backend: 'kubernetes',
    devices: 'cpu',
    predictor: asPod,
    kubernetes: { image: 'i', pod: { spec: { containers: [container] } } },
    space: {
      cpuCores: [1, 2, 3, 4],
      batch: { values: Array.from({ length: trials }, (_, i) => i + 1), category: 'env' },
    },
    sampler: 'random',
    parallel: trials,
    budget: { maxTrials: trials },
    load: { trialTime: '1s', confirmTime: '1s' },
    confirm: false,
  }),
)
const command = fileURLToPath(new URL('../../dist/tuner/cli.js', import.meta.url))
/** Of Node itself, to try what they do to its memory. */
const options = process.env.MANY_OPTIONS?.split(' ') ?? []
const env = {
  ...process.env,
  KUBECONFIG: join(folder, 'kubeconfig'),
  KUBERNETES_SERVICE_HOST: '127.0.0.1',
}
const child = spawn(process.execPath, [...options, command, '-f', 'experiment.yaml', '--json'], {
  cwd: folder,
  env,
  stdio: ['ignore', 'pipe', 'inherit'],
})
child.stdout.resume()
const ended = once(child, 'exit')
let peakMiB = 0
while (child.exitCode === null && child.signalCode === null) {
  const text = (() => {
    try {
      return readFileSync(`/proc/${child.pid}/status`, 'utf8')
    } catch {
      return '' // it has ended
    }
  })()
  peakMiB = Math.max(peakMiB, Number(/VmHWM:\s*(\d+)/.exec(text)?.[1] ?? 0) / 1024)
  await sleep(100)
}
const [code] = await ended
const counts = new Map<string, number>()
for (const right of fake.seen.map((request) => asked(request) ?? 'others'))
  counts.set(right, (counts.get(right) ?? 0) + 1)
console.info(
  `exit code ${code}; ${most} predictors at once; the tuner's process had at most ${peakMiB.toFixed(0)} MiB resident`,
)
console.info(`${fake.seen.length} requests, ${(fake.seen.length / trials).toFixed(1)} a trial:`)
for (const [right, count] of [...counts].sort((a, b) => b[1] - a[1]))
  console.info(`  ${right.padEnd(40)} ${count}`)
await server.stop()
await fake.stop()
rmSync(folder, { recursive: true, force: true })
