import { describe, expect, test } from 'vitest'
import { createRefusalError, getHtmlHint } from './refusals.ts'

const refused = (status: number, text = '') => {
  const { message, hint, why } = createRefusalError('json', 'http://h/p', { status, text }, true)
  return { message, hint, why }
}

describe('the hint of a refused request', () => {
  test.each([
    [202, '{"id": "j-1"}', 'answers them later, which cannot be measured', 'other-protocol'],
    [204, '', 'does that path answer inferences?', undefined],
    [400, '{"error": "bad shape"}', 'does the payload fit the model?', 'refused'],
    [400, 'expected multipart/form-data', "--form 'file=@FILE'", 'refused'],
    [401, '', '--header', 'denied'],
    [403, '', '--header', 'denied'],
    [403, '<p>CSRF verification failed.</p>', 'csrf_exempt', 'denied'],
    [404, '', '--path', 'unknown-call'],
    [405, '', '--path', 'unknown-call'],
    [413, '', 'send a smaller payload', 'refused'],
    [415, '{"detail": "Unsupported Media Type"}', '--content-type', 'refused'],
    [429, '', 'a rate limit', undefined],
    [500, '', 'see its log', undefined],
    [503, '', 'the server behind it', 'not-ready'],
  ])('%i %s: %s', (status, text, hint, why) => {
    expect(refused(status, text)).toMatchObject({ hint: expect.stringContaining(hint), why })
  })

  test.each([
    [
      'OpenAI',
      400,
      '{"error": {"message": "Unrecognized request argument supplied: ignore_eos"}}',
      'ignoreEos: false',
    ],
    [
      'Mistral',
      422,
      '{"detail": [{"type": "extra_forbidden", "loc": ["body", "ignore_eos"], "msg": "Extra inputs are not permitted", "input": true}]}',
      'ignoreEos: false',
    ],
    [
      'Groq',
      400,
      `{"error": {"message": "property 'ignore_eos' is unsupported"}}`,
      'ignoreEos: false',
    ],
    [
      'transformers serve',
      422,
      `{"detail": "Unexpected fields in the request: {'ignore_eos'}"}`,
      'ignoreEos: false',
    ],
    [
      'who names several',
      422,
      `{"detail": "Unexpected fields in the request: {'best_of', 'ignore_eos'}"}`,
      'ignoreEos: false',
    ],
    [
      'OpenAI o1',
      400,
      `{"error": {"message": "Unsupported parameter: 'max_tokens' is not supported with this model."}}`,
      '--payload',
    ],
    [
      'who repeats the request',
      400,
      `{"message": "Field required: 'input', got {'ignore_eos': True}"}`,
      'does the payload fit',
    ],
  ])('a field that %s rejects', (_, status, text, hint) => {
    expect(refused(status, text).hint).toContain(hint)
  })

  test("FastAPI's list of missing fields becomes a body template", () => {
    const detail = ['texts', 'top_k'].map((name) => ({
      type: 'missing',
      loc: ['body', name],
      msg: 'Field required',
      input: {},
    }))
    expect(refused(422, JSON.stringify({ detail }))).toEqual({
      message: 'http://h/p answered 422: body.texts: Field required; body.top_k: Field required',
      hint: expect.stringContaining(
        `--body '{"texts": ..., "top_k": ...}'; for a form --form 'texts=@FILE' or 'texts={{image}}'`,
      ),
      why: 'refused',
    })
    const wrong = {
      detail: [{ type: 'int_parsing', loc: ['body', 'n'], msg: 'Input should be a valid integer' }],
    }
    expect(refused(422, JSON.stringify(wrong))).toMatchObject({
      message: 'http://h/p answered 422: body.n: Input should be a valid integer',
      hint: expect.stringContaining('--body'),
    })
    // Its own words stay where its list is none of FastAPI's.
    expect(refused(422, '{"detail": [1, {"loc": 2}], "message": "no"}').message).toBe(
      'http://h/p answered 422: no',
    )
  })

  test('a refused query about the server has no hint about requests', () => {
    const { hint, why } = createRefusalError('json', 'http://h/metadata', { status: 400, text: '' })
    expect([hint, why]).toEqual([undefined, undefined])
    expect(
      createRefusalError(
        'tfserving',
        'http://h/p',
        { status: 400, text: 'Malformed request: POST /p' },
        true,
      ).why,
    ).toBeUndefined()
  })
})

test('an HTML page is no answer of a model', () => {
  expect(getHtmlHint('\n<!DOCTYPE html><html>')).toContain('this is an HTML page')
  expect(getHtmlHint('<html lang="en">')).toContain('--path')
  expect(getHtmlHint('spam')).toBeUndefined()
})
