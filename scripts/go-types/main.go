// Writes the table of Go types that crates/bundle reads (crates/bundle/src/go/types.txt), by reflection.
//
//	cd scripts/go-types && go run . > ../../crates/bundle/src/go/types.txt
//
// A type that reads or writes JSON in a way of its own must be named in special below: an unknown one ends the program, so that nothing
// gets into the table that the reader of it would take for something else.
package main

import (
	"encoding/json"
	"fmt"
	"os"
	"reflect"
	"sort"
	"strings"

	"github.com/operator-framework/api/pkg/lib/release"
	"github.com/operator-framework/api/pkg/lib/version"
	"github.com/operator-framework/api/pkg/operators/v1alpha1"
	"github.com/operator-framework/operator-registry/alpha/property"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// Types that go through Go on the way from a bundle to what is applied, and the metadata that opm lists.
var roots = []any{
	v1alpha1.ClusterServiceVersion{},
	apiextensionsv1.CustomResourceDefinition{},
	appsv1.Deployment{},
	corev1.Service{},
	corev1.ServiceAccount{},
	rbacv1.Role{},
	rbacv1.RoleBinding{},
	rbacv1.ClusterRole{},
	rbacv1.ClusterRoleBinding{},
	admissionv1.ValidatingWebhookConfiguration{},
	admissionv1.MutatingWebhookConfiguration{},
	property.CSVMetadata{},
}

// Types with JSON forms of their own, and what the table calls them.
var special = map[reflect.Type]string{
	reflect.TypeFor[resource.Quantity]():                            "quantity",
	reflect.TypeFor[intstr.IntOrString]():                           "intorstring",
	reflect.TypeFor[metav1.Time]():                                  "time",
	reflect.TypeFor[metav1.FieldsV1]():                              "raw",
	reflect.TypeFor[apiextensionsv1.JSON]():                         "raw",
	reflect.TypeFor[json.RawMessage]():                              "raw",
	reflect.TypeFor[apiextensionsv1.JSONSchemaPropsOrBool]():        "JSONSchemaPropsOrBool",
	reflect.TypeFor[apiextensionsv1.JSONSchemaPropsOrArray]():       "JSONSchemaPropsOrArray",
	reflect.TypeFor[apiextensionsv1.JSONSchemaPropsOrStringArray](): "JSONSchemaPropsOrStringArray",
	reflect.TypeFor[version.OperatorVersion]():                      "version",
	reflect.TypeFor[release.OperatorRelease]():                      "release",
}

// What names of types are prefixed with, by package.
var prefixes = map[string]string{
	"k8s.io/api/core/v1":                                             "",
	"k8s.io/api/apps/v1":                                             "",
	"k8s.io/apimachinery/pkg/apis/meta/v1":                           "",
	"k8s.io/api/rbac/v1":                                             "rbac.",
	"k8s.io/api/admissionregistration/v1":                            "admissionregistration.",
	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1":       "apiextensions.",
	"github.com/operator-framework/api/pkg/operators/v1alpha1":       "operators.",
	"github.com/operator-framework/operator-registry/alpha/property": "",
}

var (
	marshaler   = reflect.TypeFor[json.Marshaler]()
	unmarshaler = reflect.TypeFor[json.Unmarshaler]()
	named       = map[string]reflect.Type{}
	lines       = map[string][]string{}
)

func main() {
	for _, root := range roots {
		name(reflect.TypeOf(root))
	}
	names := make([]string, 0, len(lines))
	for name := range lines {
		names = append(names, name)
	}
	sort.Slice(names, func(a, b int) bool { return order(names[a]) < order(names[b]) })
	fmt.Print(head)
	for _, name := range names {
		fmt.Println(name)
		for _, line := range lines[name] {
			fmt.Println(" " + line)
		}
	}
}

// Types without a prefix come first.
func order(name string) string {
	if strings.Contains(name, ".") {
		return "1" + name
	}
	return "0" + name
}

// The name of a struct; its fields are noted.
func name(t reflect.Type) string {
	prefix, ok := prefixes[t.PkgPath()]
	if !ok {
		fail("%s: a package without a prefix", t)
	}
	name := prefix + t.Name()
	if known, ok := named[name]; ok {
		if known != t {
			fail("%s and %s have one name", known, t)
		}
		return name
	}
	named[name] = t
	lines[name] = nil
	lines[name] = fields(t)
	return name
}

func fields(t reflect.Type) []string {
	var out []string
	for i := range t.NumField() {
		field := t.Field(i)
		tag := strings.Split(field.Tag.Get("json"), ",")
		if tag[0] == "-" {
			continue
		}
		if field.Anonymous && tag[0] == "" {
			out = append(out, fields(field.Type)...)
			continue
		}
		if !field.IsExported() {
			continue
		}
		text := tag[0]
		if text == "" {
			text = field.Name
		}
		for _, option := range tag[1:] {
			switch option {
			case "omitempty":
				text += "?"
			case "omitzero":
				text += "!"
			case "inline", "":
			default:
				fail("%s.%s: the option %s is not known", t, field.Name, option)
			}
		}
		out = append(out, text+" "+kind(field.Type))
	}
	return out
}

func kind(t reflect.Type) string {
	if text, ok := special[t]; ok {
		return text
	}
	pointer := reflect.PointerTo(t)
	if t.Kind() != reflect.Pointer && (pointer.Implements(marshaler) || pointer.Implements(unmarshaler)) {
		fail("%s has a JSON form of its own that is not known", t)
	}
	switch t.Kind() {
	case reflect.String:
		return "string"
	case reflect.Bool:
		return "bool"
	case reflect.Int32:
		return "int32"
	case reflect.Int64, reflect.Int:
		return "int64"
	case reflect.Float64:
		return "float"
	case reflect.Pointer:
		return "*" + kind(t.Elem())
	case reflect.Slice:
		if t.Elem().Kind() == reflect.Uint8 {
			return "bytes"
		}
		return "[]" + kind(t.Elem())
	case reflect.Map:
		if t.Key().Kind() != reflect.String {
			fail("%s: a map whose keys are no text", t)
		}
		return "{}" + kind(t.Elem())
	case reflect.Struct:
		return name(t)
	}
	fail("%s: a kind that is not known", t)
	return ""
}

func fail(format string, arguments ...any) {
	fmt.Fprintf(os.Stderr, format+"\n", arguments...)
	os.Exit(1)
}

const head = `# Facts about the Go types that upstream passes a bundle through, read by reflection: written by scripts/go-types, whose go.mod names the
# versions. A type is a line; its JSON fields follow, indented, in the order of the struct: name, ` + "`?` for omitempty, `!` for omitzero" + `,
# type (` + "`*` pointer, `[]` slice, `{}` map with text keys" + `). ` + "`raw`, `quantity`, `intorstring`, `time`, `version`, `release`, `bytes` and the three" + `
# ` + "`JSONSchemaPropsOr...`" + ` have JSON forms of their own.
`
