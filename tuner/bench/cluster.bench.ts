/**
 * What a trial on a cluster costs beyond its images' start and its load, phase by phase, and its
 * requests to the API server: npm run bench:cluster. Against the cluster of KUBECONFIG, in
 * NAMESPACE (default the context's), with the image TUNE_K8S_IMAGE (its entry point is `tune`).
 */
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { openKubernetes } from '../backends/kubernetes-backend.ts'
import { loadExperiment } from '../experiment/load-experiment.ts'

const trials = Number(process.env.TRIALS ?? 6)
const image = process.env.TUNE_K8S_IMAGE
if (!image)
  throw new Error('set TUNE_K8S_IMAGE to an image on the cluster whose entry point is `tune`')

const folder = mkdtempSync(join(tmpdir(), 'tune-bench-'))
const file = join(folder, 'experiment.yaml')
writeFileSync(
  file,
  JSON.stringify({
    model: 'bert',
    slo: '300ms',
    backend: 'kubernetes',
    devices: 'emulated',
    space: {
      cpuCores: [0.3],
      memoryMiB: [400],
      gpu: ['T4'],
      gpuMemoryPercent: [100],
      batchSize: [4],
    },
    kubernetes: { image, ...(process.env.NAMESPACE && { namespace: process.env.NAMESPACE }) },
    load: { trialTime: '3s' },
    db: join(folder, 'tune.db'),
  }),
)

const median = (values: readonly number[]) =>
  [...values].sort((a, b) => a - b)[Math.floor(values.length / 2)]!
const never = new AbortController().signal
const experiment = loadExperiment({ file, cwd: folder, machine: { cpuCores: 2, gpus: [] } })
const cluster = await openKubernetes(experiment, 'bench')
const { launcher } = cluster
try {
  const rows: Record<string, number>[] = []
  for (let number = 1; number <= trials; number++) {
    const seen = new Map<string, number>()
    const note = (what: string) => seen.has(what) || seen.set(what, performance.now())
    const unlisten = launcher.watch.listen(() => {
      for (const { metadata, status } of launcher.watch.all()) {
        const role = metadata?.labels?.['tune/role']
        if (metadata?.labels?.['tune/trial'] !== String(number)) continue
        note(`${role} made`)
        const [container] = status?.containerStatuses ?? []
        if (container?.state?.running) note(`${role} runs`)
        if (container?.state?.terminated) note(`${role} ended`)
      }
    })
    const before = launcher.api.requests
    const startMs = performance.now()
    const predictor = await launcher.launch(
      { cpuCores: 0.3, memoryMiB: 400, gpu: 'T4', gpuMemoryPercent: 100, batchSize: 4 },
      number,
      never,
    )
    const readyMs = performance.now()
    let stepMs = 0
    const onStep = () => {
      stepMs = performance.now()
    }
    const measurement = await cluster.measure(
      predictor,
      { kind: 'trial' },
      { number, onStep },
      never,
    )
    const measuredMs = performance.now()
    await predictor.usage()
    const usedMs = performance.now()
    await predictor.stop()
    const endMs = performance.now()
    unlisten()
    const at = (what: string) => seen.get(what) ?? Number.NaN
    const loadMs = measurement.seconds * 1000
    const predictorStart = at('predictor runs') - startMs
    const server = readyMs - at('predictor runs')
    const loadStart = at('load runs') - readyMs
    rows.push({
      total: endMs - startMs,
      'predictor: pod starts': predictorStart,
      'predictor: serves': server,
      'load: pod starts': loadStart,
      'load: process starts': stepMs - loadMs - at('load runs'),
      'load: measures': loadMs,
      'load: result here': measuredMs - stepMs,
      usage: usedMs - measuredMs,
      'predictor: ends': endMs - usedMs,
      overhead: endMs - startMs - predictorStart - server - loadStart - loadMs,
      requests: launcher.api.requests - before,
    })
  }
  for (const name of Object.keys(rows[0]!)) {
    const values = rows.map((row) => row[name]!)
    const unit = name === 'requests' ? '' : ' s'
    const shown = (value: number) =>
      name === 'requests' ? value.toFixed(0) : (value / 1000).toFixed(2)
    console.info(
      `${name.padEnd(24)} median ${shown(median(values))}${unit}, ${shown(Math.min(...values))} to ${shown(Math.max(...values))}`,
    )
  }
} finally {
  await cluster.close()
  rmSync(folder, { recursive: true, force: true })
}
