import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, describe, expect, test } from 'vitest'
import { templateFault } from './body-template.ts'
import { typeOfFile } from './file-types.ts'
import { bodiesFromFile } from './payload-pool.ts'
import { exampleRequest, type RequestForm, requestFault } from './request-forms.ts'

const generated = { kind: 'generated', seed: 1, count: 1 } as const
const made = (asked: RequestForm) => exampleRequest(asked, generated)
const folder = mkdtempSync(join(tmpdir(), 'tune-forms-'))
afterAll(() => rmSync(folder, { recursive: true, force: true }))

describe('a request of a server of its own', () => {
  test('is JSON where nothing else is said', async () => {
    const { contentType, body } = await made({ template: '{"texts": {{texts}}, "n": {{int}}}' })
    expect(contentType).toBe('application/json')
    expect(JSON.parse(String(body))).toEqual({ texts: [expect.stringMatching(/\w+ \w+/)], n: 1 })
  })

  test('a form is one that others read, its pictures as files', async () => {
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

  test('what cannot be filled in is named beforehand', () => {
    expect(requestFault({ form: { file: '{{picture}}' } })?.what).toContain('{{picture}}')
    expect(requestFault({ template: '{{text}}', contentType: 'text/plain' })).toBeUndefined()
    expect(requestFault({ template: '{{text}}' })?.what).toContain('not JSON once filled in')
    expect(
      requestFault({ template: '{"a": {{text}}}', contentType: 'application/vnd.x+json' })?.hint,
    ).toContain('with their quotes')
    expect(requestFault({ template: '{"a": "{{texts}}"}' })?.hint).toContain('without quotes')
    expect(requestFault({ template: '{"a": {{text}}}\n' })?.what).toMatch(
      /^the body template is not JSON once filled in: .*$/,
    )
    expect(requestFault({ template: '{\n"a": {{text}}\n}\n' })?.what).toMatch(
      /^the body template is not JSON once filled in, line 2: .*$/,
    )
    expect(requestFault({})).toBeUndefined()
  })
})

test.each([
  ['{\n  "text": {{text}},\n  "n": 1\n}', 2],
  ['{\n  "text": "{{text}}",\n  "n": {{int}} 7\n}', 3],
  ['{\n  "text": "{{text}}",\n', 2],
])('a template of several lines says at which it goes wrong: %s', (template, line) => {
  expect(templateFault(template)?.what).toContain(`once filled in, line ${line}: `)
})

test('one file as the whole request: by its name, or as the user says; a document over several lines is one too', async () => {
  expect(
    ['a/cat.JPG', 'clip.wav', 'x.bin', 'texts.txt', 'bodies.jsonl', 'bodies'].map(typeOfFile),
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
  const [only, ...more] = await bodiesFromFile({ path })
  expect([JSON.parse(String(only!.body)), more]).toEqual([{ text: 'hello', n: 1 }, []])
  expect(await bodiesFromFile({ path, contentType: 'text/x' })).toEqual([
    { contentType: 'text/x', body: Buffer.from('{\n  "text": "hello",\n  "n": 1\n}\n') },
  ])
  writeFileSync(path, '{\n  "text":\n')
  await expect(bodiesFromFile({ path })).rejects.toThrow(/request\.json:1: /)
})
