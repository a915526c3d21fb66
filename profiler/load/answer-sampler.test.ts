import { expect, test } from 'vitest'
import { WholeAnswer } from './answer-reader.ts'
import { AnswerSampler } from './answer-sampler.ts'

const target = {
  sample: { bodies: [0, 2] },
  bodies: [0, 1, 2].map((body) => ({ contentType: 'text/plain', body: String(body) })),
}

test('keeps a few good answers of the bodies that are asked for, whole', () => {
  let nowMs = 0
  const sampler = new AnswerSampler(target, () => nowMs)
  const answer = (body: number, text: string, expected?: string) => {
    const reader = sampler.reading(body, new WholeAnswer(expected))
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
  expect(sampler.take().map(({ body, answer }) => [body, answer.toString()])).toEqual([
    [0, 'first'],
    [2, 'second'],
  ])
  expect(sampler.take()).toEqual([])
})

test('keeps no more than twenty of one load, and none of a megabyte', () => {
  let nowMs = 0
  const sampler = new AnswerSampler(target, () => (nowMs += 1000))
  const long = sampler.reading(0, new WholeAnswer(undefined))
  long.read(Buffer.alloc(2 ** 20 + 1))
  long.end()
  expect(sampler.take()).toEqual([])
  for (let i = 0; i < 50; i++) {
    const reader = sampler.reading(0, new WholeAnswer(undefined))
    reader.read(Buffer.from('x'))
    reader.end()
  }
  expect(sampler.take()).toHaveLength(20)
})
