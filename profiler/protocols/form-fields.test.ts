import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, describe, expect, test } from 'vitest'
import { findFieldFileFault, parseField, replaceFieldPath } from './form-fields.ts'
import { buildExampleRequest, findRequestFault, isConstant } from './request-format.ts'

const folder = mkdtempSync(join(tmpdir(), 'tune-fields-'))
afterAll(() => rmSync(folder, { recursive: true, force: true }))
const clip = join(folder, 'clip.wav')
writeFileSync(clip, Buffer.from([0x52, 0x49, 0x46, 0x46, 0, 0xff, 0x0d, 0x0a]))
writeFileSync(join(folder, 'words.txt'), '@home {{text}}\n')
writeFileSync(join(folder, 'a;b.bin'), 'x')
writeFileSync(join(folder, 'empty.wav'), '')
mkdirSync(join(folder, 'more'))

describe('a field has the syntax of curl', () => {
  test.each([
    ['whisper-1', { kind: 'value', content: 'whisper-1' }],
    ['a@b.example', { kind: 'value', content: 'a@b.example' }],
    ['\\@home', { kind: 'value', content: '@home' }],
    ['\\<b>', { kind: 'value', content: '<b>' }],
    ['\\\\@home', { kind: 'value', content: '\\@home' }],
    ['a;b', { kind: 'value', content: 'a;b' }],
    [
      '{"n": 1};type=application/json',
      { kind: 'value', content: '{"n": 1}', type: 'application/json' },
    ],
    [
      '@a/clip.wav',
      { kind: 'upload', content: 'a/clip.wav', type: 'audio/wav', filename: 'clip.wav' },
    ],
    [
      '@clip.wav;type=audio/x-wav;filename=x.wav',
      { kind: 'upload', content: 'clip.wav', type: 'audio/x-wav', filename: 'x.wav' },
    ],
    [
      '@clip.wav; filename="a b;c.wav"; type=audio/wav',
      { kind: 'upload', content: 'clip.wav', type: 'audio/wav', filename: 'a b;c.wav' },
    ],
    ['@"a;b.mp3"', { kind: 'upload', content: 'a;b.mp3', type: 'audio/mpeg', filename: 'a;b.mp3' }],
    [
      '@x.unknown',
      {
        kind: 'upload',
        content: 'x.unknown',
        type: 'application/octet-stream',
        filename: 'x.unknown',
      },
    ],
    [
      '@notes.txt;type=text/plain;charset=utf-8',
      {
        kind: 'upload',
        content: 'notes.txt',
        type: 'text/plain; charset=utf-8',
        filename: 'notes.txt',
      },
    ],
    ['<words.txt', { kind: 'text', content: 'words.txt' }],
    [
      '<q.json;type=application/json',
      { kind: 'text', content: 'q.json', type: 'application/json' },
    ],
  ])('%s', (text, field) => {
    expect(parseField(text)).toEqual(field)
  })

  test.each([
    ['@-', 'standard input'],
    ['<-', 'standard input'],
    ['@', 'names no file'],
    ['@clip.wav;headers=@h', ';headers=@h is unknown'],
    ['@clip.wav;type=wav', 'wav is no content type'],
  ])('%s is rejected with the right syntax', (text, words) => {
    const fault = findRequestFault({ form: { file: text } })
    expect(fault?.what).toContain(words)
    expect(fault?.hint).toMatch(/file/)
  })

  test.each([
    ['@no.wav', 'no file'],
    ['@more', 'is a folder'],
    ['<empty.wav', 'is empty'],
    ['@clip.wav', undefined],
    ['plain', undefined],
  ])('its file is checked: %s', (text, words) => {
    const fault = findFieldFileFault(replaceFieldPath(text, (path) => join(folder, path)))
    if (words === undefined) expect(fault).toBeUndefined()
    else expect(fault?.what).toContain(words)
  })

  test('its path can be replaced, with its options', () => {
    const there = (path: string) => `/there/${path}`
    expect(replaceFieldPath('@clip.wav;type=a/b', there)).toBe('@/there/clip.wav;type=a/b')
    expect(parseField(replaceFieldPath('@"a;b.wav"', there)).content).toBe('/there/a;b.wav')
    expect(replaceFieldPath('\\@clip.wav', there)).toBe('\\@clip.wav')
  })
})

test('a form is sent with its files and repeated names', async () => {
  const form = {
    file: [`@${clip}`, `@${join(folder, '"a;b.bin"').replace(/^(.*)"(.*)"$/, '"$1$2"')};type=a/b`],
    prompt: `<${join(folder, 'words.txt')}`,
    meta: '{"n": 1};type=application/json',
    home: '\\@home',
  }
  const { contentType, body } = await buildExampleRequest(
    { form },
    { kind: 'generated', seed: 1, count: 1 },
  )
  const sent = await new Response(body as Uint8Array<ArrayBuffer>, {
    headers: { 'content-type': contentType },
  }).formData()
  const [first, second] = sent.getAll('file') as File[]
  expect([first!.name, first!.type, second!.name, second!.type]).toEqual([
    'clip.wav',
    'audio/wav',
    'a;b.bin',
    'a/b',
  ])
  expect([...new Uint8Array(await first!.arrayBuffer())]).toEqual([
    0x52, 0x49, 0x46, 0x46, 0, 0xff, 0x0d, 0x0a,
  ])
  expect([sent.get('prompt'), sent.get('home')]).toEqual(['@home {{text}}\n', '@home'])
  expect(String(Buffer.from(body as Uint8Array))).toContain('Content-Type: application/json')
  expect(isConstant({ form })).toBe(true)
  expect(isConstant({ form: { ...form, n: '{{int}}' } })).toBe(false)
})
