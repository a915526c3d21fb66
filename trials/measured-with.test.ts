import { expect, test } from 'vitest'
import { describeMeasured } from './measured-with.ts'

const own = { gpus: [], architectures: [] }

test('how a server is asked goes along, where it is not the protocol’s own way', () => {
  const called = {
    model: 'm',
    protocol: 'json',
    path: '/score',
    healthPath: '/alive',
    body: '{"q": "{{text}}"}',
    readyTimeoutS: 9,
  } as const
  const of = (predictor: Parameters<typeof describeMeasured>[0]['predictor']) =>
    describeMeasured({ predictor, provenance: 'measured', own }, {})
  const asked = {
    protocol: 'json',
    path: '/score',
    healthPath: '/alive',
    body: '{"q": "{{text}}"}',
  }
  expect(of({ ...called, kind: 'url', url: 'http://h' })).toMatchObject({
    ...asked,
    server: 'url',
    url: 'http://h',
    how: 'measured',
  })
  expect(of({ ...called, kind: 'command', command: ['serve'] })).toMatchObject({
    ...asked,
    server: 'command',
    command: ['serve'],
  })
  const plain = of({
    kind: 'url',
    url: 'http://h',
    model: 'm',
    protocol: 'oip-v2',
    readyTimeoutS: 9,
  })
  const inside = of({
    kind: 'url',
    url: 'http://me:pw7Qz3@h',
    model: 'm',
    protocol: 'oip-v2',
    readyTimeoutS: 9,
  })
  expect(inside.url).not.toContain('pw7Qz3')
  for (const key of ['path', 'healthPath', 'body']) expect(plain).not.toHaveProperty(key)
})

test('weights in 8 bits are files of their own to TensorRT-LLM, and made of 16 bits as they load by the others', () => {
  const mib = (standsFor: 'vllm' | 'tensorrt-llm', quantization: string) => {
    const predictor = {
      kind: 'builtin',
      model: 'llama-3.1-70b',
      engine: 'auto',
      protocol: 'openai',
      standsFor,
      readyTimeoutS: 1,
    } as const
    return describeMeasured({ predictor, provenance: 'simulated', own }, { quantization })
      .weightsMiB!
  }
  expect(mib('vllm', 'fp8')).toBe(mib('vllm', 'none'))
  expect(mib('tensorrt-llm', 'none')).toBe(mib('vllm', 'none'))
  expect(mib('tensorrt-llm', 'fp8') / mib('vllm', 'none')).toBeCloseTo(0.515, 3)
})
