import { describe, expect, test } from 'vitest'
import { formatSettingsHelp, readSettings, SettingsError } from './settings.ts'

const faultsOf = (args: string[], env: Record<string, string> = {}): readonly string[] => {
  try {
    readSettings(args, env)
  } catch (error) {
    expect(error).toBeInstanceOf(SettingsError)
    return (error as SettingsError).faults
  }
  throw new Error('no fault was found')
}

describe('settings', () => {
  test('defaults serve bert on CPU, on the loopback address', () => {
    expect(readSettings([], {})).toMatchObject({
      model: 'bert',
      engine: 'tfjs',
      gpu: undefined,
      host: '127.0.0.1',
      batchSize: 1,
      cpuCores: 1,
    })
  })

  test('come from flags in either form and from the environment; flags win', () => {
    const settings = readSettings(
      ['--batch-size', '8', '--max-delay-ms=2.5', '--exit-with-parent'],
      {
        BATCH_SIZE: '4',
        CPU_CORES: '3',
        GPU: 'none',
      },
    )
    expect(settings).toMatchObject({
      batchSize: 8,
      maxDelayMs: 2.5,
      cpuCores: 3,
      exitWithParent: true,
      gpu: undefined,
      warmUpBatch: 8,
    })
  })

  test('of gguf no more sequences than llama.cpp takes', () => {
    expect(readSettings(['--max-num-seqs', '256', '--engine', 'gguf'], {})?.llm.maxSequences).toBe(
      256,
    )
    expect(faultsOf(['--max-num-seqs', '257', '--engine', 'gguf'])).toEqual([
      '--max-num-seqs (MAX_NUM_SEQS): llama.cpp supports at most 256 sequences',
    ])
    expect(readSettings(['--max-num-seqs', '257'], {})?.llm.maxSequences).toBe(257)
  })

  test('where there is no GPU, an instance for each core, or fewer with the cores shared out as threads', () => {
    const shared = (env: Record<string, string>) => {
      const settings = readSettings([], { CPU_CORES: '4', ...env })
      return [settings?.instances, settings?.cpuThreads]
    }
    expect([
      shared({}),
      shared({ INSTANCES: '2' }),
      shared({ INSTANCES: '8' }),
      shared({ INSTANCES: '1' }),
      shared({ CPU_THREADS: '3' }),
      shared({ GPU: 'T4' }),
    ]).toEqual([
      [4, 1],
      [2, 2],
      [8, 1],
      [1, 4],
      [4, 3],
      [1, 1],
    ])
  })

  test('all faults are told at once, each with its flag', () => {
    const faults = faultsOf(
      ['--batch-size', '0', '--cpu-cores', 'two', '--bacth-size', '3', 'bert', '--port'],
      {
        PRECISION: 'fp64',
        MODEL: 'a/b',
      },
    )
    const all = faults.join('\n')
    for (const said of [
      '--batch-size',
      '--cpu-cores',
      '--bacth-size',
      "'bert'",
      '--port',
      '--precision',
      '--model',
      "'two'",
    ])
      expect(all).toContain(said)
    expect(faults).toHaveLength(7)
  })

  test.each([
    [['--engine', 'emulated'], /needs a GPU to emulate/],
    [['--engine', 'emulated', '--gpu', 'none'], /needs a GPU to emulate/],
    [['--gpu-memory-percent', '0'], /gpu-memory-percent/],
    [['--gpu-memory-percent', 'NaN'], /gpu-memory-percent/],
    [['--batch-size', ''], /batch-size/],
    [['--batch-size', '2.5'], /whole number/],
    [['--max-delay-ms', '-1'], /max-delay-ms/],
    [['--model-version-policy', 'newest'], /latest/],
    [['--exit-with-parent=maybe'], /true/],
  ])('%j is refused', (args, message) => {
    expect(faultsOf(args).join('\n')).toMatch(message)
  })

  test('help shows every flag with unit and default', () => {
    expect(readSettings(['--help'], { BATCH_SIZE: 'nonsense' })).toBeUndefined()
    expect(formatSettingsHelp()).toMatch(/--batch-size .*\(default 1 items\)/)
    expect(formatSettingsHelp()).toContain('12 out of device memory')
  })
})
