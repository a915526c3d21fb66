/** Servers of language models: drafts, links to weights, and what a node can hold. */
import { execFileSync } from 'node:child_process'
import { mkdtempSync, realpathSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { describe, expect, test } from 'vitest'
import { renderSpec } from '../index.ts'
import type { Serving } from '../serving.ts'
import { hubModel, languageServing, podOf, type Tree } from '../spec-samples.contract.ts'
import { checkManifests } from '../validate.contract.ts'

async function podIn(target: 'kubernetes' | 'kserve', serving: Serving, options = {}) {
  const [file] = await renderSpec(target, serving, options)
  const { objects } = checkManifests(file!.text)
  const object = objects.find(({ kind }) => String(kind) in podOf)!
  const [, , container] = podOf[String(object.kind)]!(object.spec as Tree)
  return { text: file!.text, container }
}

test('TensorRT-LLM is called by the name of the model where its weights lie in a folder of another', async () => {
  const serving = languageServing('tensorrt-llm', 'pvc://weights/model')
  const { container } = await podIn('kubernetes', serving)
  const script = String(container.command![2])
  const folder = mkdtempSync(join(tmpdir(), 'tune-link-'))
  try {
    const link = join(folder, 'llama')
    const printed = execFileSync(
      'sh',
      ['-c', script, 'sh', folder, link, 'echo', link, '--port=1'],
      { encoding: 'utf8' },
    )
    expect(printed).toBe(`${link} --port=1\n`)
    expect(realpathSync(link)).toBe(realpathSync(folder))
  } finally {
    rmSync(folder, { recursive: true })
  }
})

describe('speculative decoding', () => {
  test('weights of an unknown draft model have a placeholder, and a note', async () => {
    for (const speculativeModel of [undefined, 'llama-3.2-1b']) {
      const serving = languageServing('sglang', hubModel, 1, {
        speculativeTokens: 3,
        speculativeMethod: 'draft',
        ...(speculativeModel && { speculativeModel }),
      })
      const { container, text } = await podIn('kubernetes', serving)
      expect(container.args).toContain(
        '--speculative-draft-model-path=REPLACE_WITH_YOUR_DRAFT_MODEL',
      )
      expect(text).toContain('INCOMPLETE: no weights of the draft model. Replace ')
    }
  })

  test('the token for a draft model of the Hub comes from the Secret, wherever the weights are', async () => {
    const serving = languageServing('sglang', 'pvc://weights/llama', 1, {
      speculativeTokens: 3,
      speculativeMethod: 'eagle3',
      speculativeModel: 'org/eagle',
    })
    const { container, text } = await podIn('kubernetes', serving)
    expect(text).not.toContain('INCOMPLETE')
    expect(JSON.stringify(container.env)).toContain('HF_TOKEN')
  })

  test('a server that has no such drafts is refused, with what it has', async () => {
    const serving = languageServing('tgi', hubModel, 1, {
      speculativeTokens: 3,
      speculativeMethod: 'eagle3',
      speculativeModel: 'org/eagle',
    })
    await expect(podIn('kubernetes', serving)).rejects.toThrow(
      /tgi does not support speculativeMethod eagle3/,
    )
  })
})

test('a note names more GPUs than a node has, and the target that spreads them', async () => {
  const several = /needs a node with 16 GPUs.*--target lws/
  const vllm = (gpus: number) => languageServing('vllm', hubModel, gpus)
  expect((await podIn('kubernetes', vllm(16))).text).toMatch(several)
  expect((await podIn('kserve', vllm(16), { variant: 'llm' })).text).toMatch(several)
  expect((await podIn('kubernetes', vllm(8))).text).not.toContain('--target lws')
  expect((await podIn('kubernetes', languageServing('sglang', hubModel, 16))).text).toMatch(
    /Only vLLM is deployed over several nodes/,
  )
})
