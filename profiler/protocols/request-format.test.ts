import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, describe, expect, test } from 'vitest'
import { findTemplateFault } from './body-template.ts'
import { detectContentType } from './file-types.ts'
import { readBodies } from './payload-pool.ts'
import { buildExampleRequest, findRequestFault, type RequestFormat } from './request-format.ts'

const generated = { kind: 'generated', seed: 1, count: 1 } as const
const made = (asked: RequestFormat) => buildExampleRequest(asked, generated)
const folder = mkdtempSync(join(tmpdir(), 'tune-forms-'))
afterAll(() => rmSync(folder, { recursive: true, force: true }))

describe('a request to a custom server', () => {
  test('is JSON by default', async () => {
    const { contentType, body } = await made({ template: '{"texts": {{texts}}, "n": {{int}}}' })
    expect(contentType).toBe('application/json')
    expect(JSON.parse(String(body))).toEqual({ texts: [expect.stringMatching(/\w+ \w+/)], n: 1 })
  })

  test('a form can be parsed, with images as files', async () => {
    const { contentType, body } = await made({
      form: { 'my "file"': '{{image}}', top_k: '{{int}}', note: 'ü {{text}}' },
    })
    const form = await new Response(body as Uint8Array<ArrayBuffer>, {
      headers: { 'content-type': contentType },
    }).formData()
    const file = form.get('my "file"') as File
    expect([file.name, file.type]).toEqual(['image.jpg', 'image/jpeg'])
    expect([...new Uint8Array(await file.arrayBuffer()).slice(0, 3)]).toEqual([0xff, 0xd8, 0xff])
    expect(form.get('top_k')).toBe('1')
    expect(form.get('note')).toMatch(/^ü \w+ /)
  })

  test('of another type it goes out as written: a picture, a text, an HTML form', async () => {
    const image = await made({ template: '{{image}}', contentType: 'image/jpeg' })
    expect([image.contentType, Buffer.from(image.body as Uint8Array).readUInt16BE()]).toEqual([
      'image/jpeg',
      0xffd8,
    ])
    const text = await made({ template: 'say "{{text}}"', contentType: 'text/plain' })
    expect(String(text.body)).toMatch(/^say "\w+ [^\\]*"$/)
    const fields = await made({
      template: 'q={{text}}&n={{int}}',
      contentType: 'application/x-www-form-urlencoded',
    })
    expect(new URLSearchParams(String(fields.body)).get('q')).toMatch(/\w+ \w+/)
  })

  test('a template that cannot be filled in is rejected early', () => {
    expect(findRequestFault({ form: { file: '{{picture}}' } })?.what).toContain('{{picture}}')
    expect(findRequestFault({ template: '{{text}}', contentType: 'text/plain' })).toBeUndefined()
    expect(findRequestFault({ template: '{{text}}' })?.what).toContain('not JSON once filled in')
    expect(
      findRequestFault({ template: '{"a": {{text}}}', contentType: 'application/vnd.x+json' })
        ?.hint,
    ).toContain('with their quotes')
    expect(findRequestFault({ template: '{"a": "{{texts}}"}' })?.hint).toContain('without quotes')
    expect(findRequestFault({ template: '{"a": {{text}}}\n' })?.what).toMatch(
      /^the body template is not JSON once filled in: .*$/,
    )
    expect(findRequestFault({ template: '{\n"a": {{text}}\n}\n' })?.what).toMatch(
      /^the body template is not JSON once filled in, line 2: .*$/,
    )
    expect(findRequestFault({})).toBeUndefined()
  })
})

test.each([
  ['{\n  "text": {{text}},\n  "n": 1\n}', 2],
  ['{\n  "text": "{{text}}",\n  "n": {{int}} 7\n}', 3],
  ['{\n  "text": "{{text}}",\n', 2],
])('a template of several lines says at which it goes wrong: %s', (template, line) => {
  expect(findTemplateFault(template)?.what).toContain(`once filled in, line ${line}: `)
})

test('one file as the whole request: by its name, or as the user says; a document over several lines is one too', async () => {
  expect(
    ['a/cat.JPG', 'clip.wav', 'x.bin', 'texts.txt', 'bodies.jsonl', 'bodies'].map(
      detectContentType,
    ),
  ).toEqual([
    'image/jpeg',
    'audio/wav',
    'application/octet-stream',
    undefined,
    undefined,
    undefined,
  ])
  const path = join(folder, 'request.json')
  writeFileSync(path, '{\n  "text": "hello",\n  "n": 1\n}\n')
  const [only, ...more] = await readBodies({ path })
  expect([JSON.parse(String(only!.body)), more]).toEqual([{ text: 'hello', n: 1 }, []])
  expect(await readBodies({ path, contentType: 'text/x' })).toEqual([
    { contentType: 'text/x', body: Buffer.from('{\n  "text": "hello",\n  "n": 1\n}\n') },
  ])
  writeFileSync(path, '{\n  "text":\n')
  await expect(readBodies({ path })).rejects.toThrow(/request\.json:1: /)
})
