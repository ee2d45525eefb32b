// The reference, made from the service's own description. Everything comes from this origin; nothing is stored.
'use strict';

let api;

// The theme that was chosen in the console, if one was.
try {
  const theme = localStorage.getItem('auspex-theme');
  if (theme === 'light' || theme === 'dark') document.documentElement.dataset.theme = theme;
} catch { /* The browser keeps nothing: the system's theme is used. */ }

function element(name, attributes = {}, ...children) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  made.append(...children.filter((child) => child !== null && child !== undefined));
  return made;
}

// Text with `code` in it.
function prose(text) {
  const pieces = (text ?? '').split('`');
  return pieces.map((piece, index) => (index % 2 ? element('code', {}, piece) : piece));
}

// A path that may break after each slash.
function breakable(path) {
  return path.split('/').flatMap((piece, index) => (index ? ['/', element('wbr'), piece] : [piece]));
}

// Rows of a table, of which the first cell names the row.
function row(name, ...cells) {
  return element('tr', {}, element('th', { scope: 'row' }, name), ...cells);
}

function resolve(schema) {
  if (!schema?.$ref) return schema ?? {};
  return api.components.schemas[schema.$ref.split('/').pop()] ?? {};
}

function nameOf(schema) {
  if (!schema) return '';
  if (schema.$ref) return schema.$ref.split('/').pop();
  const choices = schema.oneOf ?? schema.anyOf;
  if (choices) return choices.map(nameOf).join(' or ');
  if (schema.enum) return schema.enum.map((value) => JSON.stringify(value)).join(' | ');
  const type = [schema.type ?? 'any'].flat().map((one) => (one === 'array' ? `${nameOf(schema.items)}[]` : one));
  return type.join(' or ') + (schema.format ? ` (${schema.format})` : '');
}

function exampleOf(schema, depth = 0) {
  const known = resolve(schema);
  if (known.example !== undefined) return known.example;
  if (known.examples?.length) return known.examples[0];
  if (known.default !== undefined) return known.default;
  if (known.enum) return known.enum[0];
  const choices = known.oneOf ?? known.anyOf ?? known.allOf;
  if (choices) return exampleOf(choices.find((choice) => choice.type !== 'null') ?? choices[0], depth);
  const type = [known.type].flat().find((one) => one !== 'null');
  if (depth > 6) return null;
  switch (type) {
    case 'object': return Object.fromEntries(Object.entries(known.properties ?? {})
      .map(([key, value]) => [key, exampleOf(value, depth + 1)]));
    case 'array': return [exampleOf(known.items, depth + 1)];
    case 'integer': case 'number': return known.minimum ?? 0;
    case 'boolean': return true;
    case 'string': return { 'date-time': '2026-01-01T00:00:00.000000Z', date: '2026-01-01', email: 'ann@example.com',
      uuid: '01980000-0000-7000-8000-000000000000' }[known.format] ?? 'text';
    default: return null;
  }
}

// The fields of a record, each with its type and meaning; records inside open in place.
function fields(schema, depth = 0) {
  const known = resolve(schema);
  const inner = [known.type].flat().includes('array') ? resolve(known.items) : known;
  if (!inner.properties || depth > 4) return null;
  const rows = Object.entries(inner.properties).map(([name, property]) => {
    const nested = (property.oneOf ?? [property]).map((one) => fields(one, depth + 1)).find(Boolean);
    const required = (inner.required ?? []).includes(name) ? '' : '?';
    return row(element('code', {}, name + required), element('td', {}, nameOf(property)),
      element('td', {}, ...prose(property.description ?? resolve(property).description),
        nested ? element('details', {}, element('summary', {}, 'fields'), nested) : null));
  });
  return element('table', {}, ...rows);
}

function body(title, content) {
  const [type, media] = Object.entries(content ?? {})[0] ?? [];
  if (!media) return null;
  const example = media.example ?? exampleOf(media.schema);
  const shown = typeof example === 'string' ? example : JSON.stringify(example, null, 2);
  return element('details', {}, element('summary', {}, `${title}: `, element('code', {}, nameOf(media.schema)), ` (${type})`),
    fields(media.schema), element('pre', { tabindex: '0', 'aria-label': `Example of ${nameOf(media.schema)}` }, shown));
}

function base64url(bytes) {
  return btoa(String.fromCharCode(...new Uint8Array(bytes))).replace(/\+/g, '-').replace(/\//g, '_').replace(/=+$/, '');
}

// What every request to /v1 carries: a token of sixty seconds for this method and this decoded path alone.
async function credential(method, path) {
  const value = (id) => document.getElementById(id).value.trim();
  if (value('token')) return `Bearer ${value('token')}`;
  if (!value('key') || !value('secret')) return null;
  const encode = (part) => new TextEncoder().encode(part);
  const now = Math.floor(Date.now() / 1000);
  const parts = [{ alg: 'HS256', typ: 'JWT', kid: value('key') }, { iat: now, exp: now + 60, htm: method, htu: decodeURIComponent(path) }];
  const signed = parts.map((part) => base64url(encode(JSON.stringify(part)))).join('.');
  const key = await crypto.subtle.importKey('raw', encode(value('secret')), { name: 'HMAC', hash: 'SHA-256' }, false, ['sign']);
  return `Bearer ${signed}.${base64url(await crypto.subtle.sign('HMAC', key, encode(signed)))}`;
}

function trial(method, template, operation) {
  const parameters = (operation.parameters ?? []).filter((one) => one.in !== 'cookie');
  const inputs = parameters.map((parameter) => [parameter, element('input', { autocomplete: 'off', placeholder: nameOf(parameter.schema) })]);
  const media = operation.requestBody?.content?.['application/json'];
  const text = media ? element('textarea', { 'aria-label': 'Body', spellcheck: 'false' }) : null;
  if (text) text.value = JSON.stringify(media.example ?? exampleOf(media.schema), null, 2);
  const answer = element('pre', { hidden: '', tabindex: '0', 'aria-label': 'Response' });
  const button = element('button', { type: 'button' }, 'Send');
  button.addEventListener('click', async () => {
    let path = template;
    const query = new URLSearchParams();
    const headers = {};
    for (const [parameter, input] of inputs) {
      if (parameter.in === 'path') path = path.replace(`{${parameter.name}}`, encodeURIComponent(input.value));
      else if (input.value && parameter.in === 'query') query.set(parameter.name, input.value);
      else if (input.value) headers[parameter.name] = input.value;
    }
    answer.hidden = false;
    try {
      const authorization = await credential(method, path);
      if (authorization) headers.Authorization = authorization;
      if (text) headers['Content-Type'] = 'application/json';
      const reply = await fetch(path + (query.size ? `?${query}` : ''), { method, headers, body: text?.value });
      const said = await reply.text();
      let shown = said;
      try { shown = JSON.stringify(JSON.parse(said), null, 2); } catch { /* Not JSON: shown as it is. */ }
      answer.textContent = `${reply.status} ${reply.statusText}\n\n${shown}`;
    } catch (error) {
      answer.textContent = String(error);
    }
  });
  const rows = inputs.map(([parameter, input]) => element('label', {}, `${parameter.name} (${parameter.in}) `, input));
  return element('details', {}, element('summary', {}, 'Try it'), ...rows, text, button, answer);
}

function operationOf(method, path, operation) {
  const parameters = (operation.parameters ?? []).map((parameter) => row(
    element('code', {}, parameter.name + (parameter.required ? '' : '?')),
    element('td', {}, `${parameter.in}, ${nameOf(parameter.schema)}`), element('td', {}, ...prose(parameter.description))));
  const answers = Object.entries(operation.responses).map(([status, answer]) => row(
    element('code', {}, status), element('td', {}, ...prose(answer.description), body('Body', answer.content))));
  const schemes = (operation.security ?? []).map((one) => Object.keys(one)[0] ?? 'nothing');
  const security = (schemes.length > 1 ? 'one of ' : '') + schemes.join(', ');
  return element('article', { id: operation.operationId },
    element('h3', {}, element('a', { href: `#${operation.operationId}` }, element('span', { class: `method ${method}` }, method.toUpperCase()), ' ',
      element('code', { class: operation.deprecated ? 'deprecated' : '' }, ...breakable(path)))),
    element('p', {}, element('strong', {}, operation.summary ?? ''), ' ', ...prose(operation.description)),
    security ? element('p', {}, 'Needs: ', security) : null,
    parameters.length ? element('table', {}, ...parameters) : null,
    body('Request', operation.requestBody?.content),
    element('details', {}, element('summary', {}, 'Responses'), element('table', {}, ...answers)),
    trial(method.toUpperCase(), path, operation));
}

async function start() {
  api = await (await fetch('/openapi.json')).json();
  document.getElementById('about').replaceChildren(...prose(api.info.description));
  const groups = new Map(api.tags.map((tag) => [tag.name, { tag, links: [], articles: [] }]));
  for (const [path, item] of Object.entries(api.paths)) {
    for (const method of ['get', 'post', 'put', 'patch', 'delete'].filter((one) => item[one])) {
      const operation = item[method];
      const group = groups.get(operation.tags?.[0]) ?? groups.get('system');
      const link = element('a', { href: `#${operation.operationId}` },
        element('span', { class: `method ${method}` }, method.toUpperCase()), ' ', element('span', {}, ...breakable(path)));
      group.links.push(link);
      group.articles.push(operationOf(method, path, operation));
    }
  }
  const used = [...groups.values()].filter((group) => group.links.length);
  document.getElementById('contents').replaceChildren(...used.map((group) =>
    element('section', { 'aria-label': group.tag.name }, element('h2', {}, group.tag.name), ...group.links)));
  document.getElementById('operations').replaceChildren(...used.flatMap((group) =>
    [element('h2', {}, group.tag.name), element('p', {}, ...prose(group.tag.description)), ...group.articles]));
  document.getElementById('filter').addEventListener('input', (event) => {
    const wanted = event.target.value.toLowerCase();
    for (const section of document.querySelectorAll('nav section')) {
      const links = [...section.querySelectorAll('a')];
      for (const link of links) link.hidden = !link.textContent.toLowerCase().includes(wanted);
      section.hidden = links.every((link) => link.hidden);
    }
  });
  document.body.prepend(element('a', { href: '#operations', class: 'skip' }, 'Skip to the operations'));
  // The page was empty when the browser looked for the operation that its address names.
  if (location.hash) location.replace(location.hash);
}

start().catch((error) => { document.getElementById('operations').textContent = `The description cannot be read: ${error}`; });
