import { expect, test } from 'vitest'
import { ExpectedTextReader } from './answer-reader.ts'
import { AnswerSampler } from './answer-sampler.ts'

const target = {
  sample: { bodies: [0, 2] },
  bodies: [0, 1, 2].map((body) => ({ contentType: 'text/plain', body: String(body) })),
}

test('samples a few complete good answers to the requested bodies', () => {
  let nowMs = 0
  const sampler = new AnswerSampler(target, () => nowMs)
  const answer = (body: number, text: string, expected?: string) => {
    const reader = sampler.wrapReader(body, new ExpectedTextReader(expected))
    for (const part of text.match(/.{1,2}/g)!) reader.read(Buffer.from(part))
    reader.end()
  }
  answer(1, 'not asked for')
  answer(0, 'first')
  answer(2, 'too soon after it')
  nowMs = 100
  answer(2, 'bad', 'good')
  nowMs = 200
  answer(2, 'second')
  expect(sampler.takeSamples().map(({ body, answer }) => [body, answer.toString()])).toEqual([
    [0, 'first'],
    [2, 'second'],
  ])
  expect(sampler.takeSamples()).toEqual([])
})

test('samples at most 20 answers per load, and none over a mebibyte', () => {
  let nowMs = 0
  const sampler = new AnswerSampler(target, () => (nowMs += 1000))
  const long = sampler.wrapReader(0, new ExpectedTextReader(undefined))
  long.read(Buffer.alloc(2 ** 20 + 1))
  long.end()
  expect(sampler.takeSamples()).toEqual([])
  for (let i = 0; i < 50; i++) {
    const reader = sampler.wrapReader(0, new ExpectedTextReader(undefined))
    reader.read(Buffer.from('x'))
    reader.end()
  }
  expect(sampler.takeSamples()).toHaveLength(20)
})
