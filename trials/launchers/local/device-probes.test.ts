import { once } from 'node:events'
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { standIn } from '../../machine/testing/stand-in.ts'
import { PredictorMetrics } from '../../predictor/server/metrics.ts'
import { createMetricsProbe, readMetrics } from '../device-probe.ts'
import { createGpuProbe, createRaplProbe } from './device-probes.ts'

test('reads what the predictor’s metrics write', async () => {
  const metrics = new PredictorMetrics()
  metrics.watchDevices(() => ({ busyMs: 1500, memoryMiB: 2048 }), 2)
  for (const version of ['1', '2']) {
    const model = metrics.of('bert', version)
    model.computed(8, 5)
    model.computed(4, 5)
  }
  expect(readMetrics(await metrics.registry.metrics())).toMatchObject({
    items: 24,
    batches: 4,
    busySeconds: 1.5,
    devices: 2,
    memoryMiB: 2048,
  })
})

test('use between two readings, batches since the first', async () => {
  const at = (seconds: number, busy: number, items: number, batches: number) =>
    `predictor_ready_seconds ${seconds}\npredictor_device_busy_seconds_total ${busy}\npredictor_devices 1\n` +
    `predictor_items_total{model="m"} ${items}\npredictor_batches_total{model="m"} ${batches}\npredictor_device_memory_bytes 1048576\n`
  const pages = [at(1, 0.5, 10, 10), at(3, 1.5, 20, 12), at(5, 3.5, 60, 17)]
  const server = createServer((_, response) => response.end(pages.shift())).listen(0, '127.0.0.1')
  await once(server, 'listening')
  try {
    const probe = createMetricsProbe(
      `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
      true,
    )
    expect(await probe()).toEqual({
      memoryMiB: 1,
      utilization: undefined,
      realisedBatch: undefined,
    })
    expect(await probe()).toEqual({ memoryMiB: 1, utilization: 0.5, realisedBatch: 5 })
    expect(await probe()).toEqual({ memoryMiB: 1, utilization: 1, realisedBatch: 50 / 7 })
  } finally {
    server.close()
  }
})

test('power of the processors is what their counters count between two readings, over their end too; their parts are not counted twice', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'rapl-'))
  const count = (name: string, microjoules: number) => {
    mkdirSync(join(folder, name), { recursive: true })
    writeFileSync(join(folder, name, 'energy_uj'), `${microjoules}\n`)
    writeFileSync(join(folder, name, 'max_energy_range_uj'), '100000000\n')
  }
  try {
    count('intel-rapl:0', 10_000_000)
    count('intel-rapl:1', 99_000_000)
    count('intel-rapl:0:0', 5_000_000)
    let nowMs = 0
    const probe = createRaplProbe(folder, () => nowMs)
    expect(await probe()).toEqual({})
    nowMs = 2_000
    count('intel-rapl:0', 90_000_000)
    count('intel-rapl:1', 19_000_000)
    count('intel-rapl:0:0', 50_000_000)
    // 80 J and 20 J in two seconds.
    expect(await probe()).toEqual({ cpuWatts: 50 })
    expect(await createRaplProbe(join(folder, 'nothing'))()).toEqual({})
  } finally {
    rmSync(folder, { recursive: true })
  }
})

test('of several GPUs: memory of the fullest, mean use, the power of all, and none where one does not tell', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'tune-held-'))
  try {
    const telling = (watts: string) =>
      standIn(
        folder,
        'smi',
        `case "$*" in *apps*GPU-0*) echo '7, 300';; *apps*GPU-1*) echo '7, 500';; *power.draw*GPU-0*) echo '40, 60';; *) echo '60, ${watts}';; esac`,
      )
    const probe = (watts: string) =>
      createGpuProbe(
        ['GPU-0', 'GPU-1'].map((uuid, index) => ({ vendor: 'nvidia' as const, index, uuid })),
        () => [7],
        { nvidia: telling(watts) },
      )()
    expect(await probe('90')).toEqual({ memoryMiB: 500, utilization: 0.5, gpuWatts: 150 })
    expect(await probe('[N/A]')).toEqual({ memoryMiB: 500, utilization: 0.5 })
  } finally {
    rmSync(folder, { recursive: true, force: true })
  }
})
