import { afterEach, describe, expect, test, vi } from 'vitest'
import { startLlama } from './llama-binding.ts'

afterEach(() => vi.unstubAllEnvs())

test.each([
  ['', 'false'],
  ['false', 'false'],
  ['0', 'false'],
  ['True', 'true'],
  ['1', 'true'],
  ['woodpecker', 'true'],
])(
  "where CI is '%s' the binding is told '%s': it takes nothing but yes and no",
  async (ci, told) => {
    vi.stubEnv('CI', ci)
    let seen: string | undefined
    const getLlama = async () => {
      seen = process.env.CI
      return { gpu: false, dispose: async () => {} }
    }
    await startLlama({ gpu: false, threads: 1 }, async () => ({ getLlama }))
    expect(seen).toBe(told)
  },
)

describe('on a GPU', () => {
  const starting = (gpu: string | false, names: readonly string[]) => {
    const dispose = vi.fn(async () => {})
    const llama = { gpu, getGpuDeviceNames: async () => names, dispose }
    return {
      started: startLlama({ gpu: true, threads: 1 }, async () => ({ getLlama: async () => llama })),
      dispose,
    }
  }

  test.each([
    ['cuda', ['NVIDIA L4', 'NVIDIA L4']],
    ['metal', ['Apple M3']],
    ['vulkan', ['NVIDIA H200']],
  ])('%s that holds to it is taken', async (gpu, names) => {
    const { started, dispose } = starting(gpu, names)
    expect(await started).toMatchObject({ gpu })
    expect(dispose).not.toHaveBeenCalled()
  })

  test('Vulkan beside other GPUs is not, for it would take them too, unless it is told which', async () => {
    const names = ['NVIDIA L4', 'NVIDIA T4']
    const { started, dispose } = starting('vulkan', names)
    await expect(started).rejects.toThrow(
      /all 2 GPUs \(NVIDIA L4, NVIDIA T4\).*GGML_VK_VISIBLE_DEVICES/,
    )
    expect(dispose).toHaveBeenCalledOnce()
    vi.stubEnv('GGML_VK_VISIBLE_DEVICES', '1')
    await expect(starting('vulkan', names).started).resolves.toMatchObject({ gpu: 'vulkan' })
  })

  test('where none is found it is said', async () => {
    await expect(starting(false, []).started).rejects.toThrow(/finds no usable GPU/)
  })
})
